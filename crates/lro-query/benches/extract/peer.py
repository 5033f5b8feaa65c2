"""A SQL engine as a peer: answers each statement read from stdin over the records of one file.

Usage: python peer.py duckdb|datafusion FILE. The first line printed names the version. Then, for
each line of input, a statement over the table `results`, one line of JSON comes back. Every
statement begins with an empty session, so that reading the file is part of its time; starting
Python and importing the engine are not.
"""

import json
import sys
import time


def duckdb_engine():
    import duckdb

    def ask(path, statement):
        with duckdb.connect() as connection:
            connection.execute(
                "CREATE VIEW results AS "
                f"SELECT * FROM read_json('{path}', format = 'newline_delimited')"
            )
            return connection.sql(statement).to_arrow_table().num_rows

    return duckdb.__version__, ask


def datafusion_engine():
    import datafusion

    def ask(path, statement):
        session = datafusion.SessionContext()
        session.register_json("results", path, file_extension=".jsonl")
        return sum(batch.num_rows for batch in session.sql(statement).collect())

    return datafusion.__version__, ask


def main():
    engine, path = sys.argv[1:]
    version, ask = {"duckdb": duckdb_engine, "datafusion": datafusion_engine}[engine]()
    print(version, flush=True)
    for statement in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        try:
            answer = {"answers": ask(path, statement)}
        except Exception as error:
            answer = {"error": str(error)}
        answer["wall"] = time.perf_counter() - wall
        answer["processor"] = time.process_time() - processor
        print(json.dumps(answer), flush=True)


main()
