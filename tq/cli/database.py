"""`tq db`: what concerns the database as a whole."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from tq.cli.exit_codes import OK

_SQL_EXPLAINED = """\
Print the statements that make tq's tables in PostgreSQL.

For those who may not create tables themselves: hand them to whoever may.
A program that finds the tables there needs no more rights than to read
and write them.

  tq db sql --schema jobs | psql postgresql://admin@db.example.com/app"""


def configure(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="<command>", required=True)
    from argparse import RawDescriptionHelpFormatter

    tables = commands.add_parser(
        "sql",
        help="print the statements that make tq's tables in PostgreSQL",
        description=_SQL_EXPLAINED,
        formatter_class=RawDescriptionHelpFormatter,
    )
    tables.add_argument("--schema", default="tq", help="the schema that will hold the queue (default: tq)")
    tables.set_defaults(run=print_sql)


def print_sql(arguments: Namespace) -> int:
    from tq.storage.location import postgres

    postgres()  # or it says what to install
    from tq.storage.postgres_schema import checked_schema, ddl

    print(ddl().replace("{schema}", f'"{checked_schema(arguments.schema)}"'))
    return OK
