"""Creates an environment of a local copy of LOCA-bench, and says how to ask about it.

    environment.py LOCA_DIR CONFIG NAME STATE OUTPUT_DIR

CONFIG is a file of task-configs/, NAME the name of an environment, STATE its number among those of that name.
Prints JSON: the command and the variables of the MCP server, the tool calls that return the data, one SQL
statement over their results (`results`, then `r1`, `r2`, …), and the rows that the rules of LOCA-bench accept,
computed from the files of the environment and not from the results. If the environment cannot be created, prints
the end of its log to stderr and exits with 1.
"""

import contextlib
import csv
import datetime
import importlib
import json
import os
import pathlib
import re
import sys
import traceback

PAGE = 100
# The most results of one SQL call.
MAX_RESULTS = 16
# The lines of a log that are printed.
LOG_LINES = 30
# What LOCA-bench writes into its log, and only there: that a step failed, or that it took files of its own copy
# in place of generated ones.
FAILURE = re.compile(r"failed|Copied (files|groundtruth_workspace)/ from", re.IGNORECASE)
COMPLETED = "preprocessing completed!"


def products(output):
    file = output / "local_db/woocommerce/products.json"
    return list(json.loads(file.read_text(encoding="utf-8")).values())


def meta(product, names):
    """The first entry with one of the names; 0 if there is none."""
    found = [entry["value"] for entry in product.get("meta_data", []) if entry["key"] in names]
    return int(found[0]) if found else 0


def meta_sql(names):
    """The same in SQL, for a product p."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return (
        "coalesce((SELECT CAST(m.value ->> 'value' AS INTEGER) FROM json_each(p.meta_data) AS m "
        f"WHERE m.value ->> 'key' IN ({quoted}) ORDER BY m.key LIMIT 1), 0)"
    )


def in_pages(tool, count):
    pages = range(1, -(-count // PAGE) + 1)
    return [{"tool": tool, "arguments": {"perPage": PAGE, "page": page, "orderby": "id"}} for page in pages]


def all_of(calls, columns):
    """The rows of all results: the first is called results."""
    tables = ["results"] + [f"r{n}" for n in range(1, len(calls))]
    return " UNION ALL ".join(f"SELECT {columns} FROM {table}" for table in tables)


def stock_alert(output):
    shop = products(output)
    calls = in_pages("woo_products_list", len(shop))
    names = ["stock_threshold"]
    sql = (
        f"WITH p AS ({all_of(calls, 'sku, stock_quantity, meta_data')}) SELECT sku, stock_quantity FROM p "
        f"WHERE stock_quantity < {meta_sql(names)} ORDER BY sku"
    )
    low = [p for p in shop if p["stock_quantity"] < meta(p, names)]
    return calls, sql, [[p["sku"], p["stock_quantity"]] for p in low]


def low_selling(output):
    shop = products(output)
    calls = in_pages("woo_products_list", len(shop))
    names = ["sales_last_30_days", "_sales_last_30_days"]
    # In stock for more than 90 whole days.
    cutoff = (datetime.datetime.now() - datetime.timedelta(days=91)).isoformat()
    sql = (
        f"WITH p AS ({all_of(calls, 'id, date_created, meta_data')}) SELECT id FROM p "
        f"WHERE date_created <= '{cutoff}' AND {meta_sql(names)} < 10 ORDER BY id"
    )
    low = [p for p in shop if p["date_created"] <= cutoff and meta(p, names) < 10]
    return calls, sql, [[p["id"]] for p in low]


def conversion(output):
    with open(output / "groundtruth_workspace/expected_ratio.csv", encoding="utf-8", newline="") as file:
        expected = [
            [row["scenario"], float(row["A_conversion %"].strip("%")), float(row["B_conversion %"].strip("%"))]
            for row in csv.DictReader(file)
        ]
    # A scenario may be drawn twice. The second replaces the table of the first, and LOCA-bench reads the rows into
    # a dictionary.
    expected = list({row[0]: row for row in expected}.values())
    tables = sorted(file.stem for file in (output / "files").glob("ab_*.csv"))
    # A call for each table, or for several if there are more tables than one SQL call reads results.
    size = -(-len(tables) // MAX_RESULTS)
    groups = [tables[first : first + size] for first in range(0, len(tables), size)]
    rows = "SELECT '{0}' AS scenario, * FROM `ab_testing.ab_{0}`"
    queries = [" UNION ALL ".join(rows.format(table.removeprefix("ab_")) for table in group) for group in groups]
    calls = [
        {"tool": "bigquery_run_query", "arguments": {"query": query, "max_results": 1_000_000}} for query in queries
    ]
    columns = "scenario, A_store_views, A_clicks, B_store_views, B_clicks"
    sums = "sum(A_store_views) AS av, sum(A_clicks) AS ac, sum(B_store_views) AS bv, sum(B_clicks) AS bc"
    overall = expected[-1][0]
    sql = (
        f"WITH p AS ({all_of(calls, columns)}), s AS (SELECT scenario, {sums} FROM p GROUP BY scenario) "
        "SELECT scenario, 100.0 * av / ac AS a, 100.0 * bv / bc AS b FROM s "
        f"UNION ALL SELECT '{overall}', 100.0 * sum(av) / sum(ac), 100.0 * sum(bv) / sum(bc) FROM s"
    )
    return calls, sql, expected


def back_to_back(output):
    with open(output / "groundtruth_workspace/standard_answer.csv", encoding="utf-8", newline="") as file:
        expected = [[row[0]] + [int(number) for number in row[1:]] for row in list(csv.reader(file))[1:]]
    sheet = (output / "files/sheet_id.txt").read_text(encoding="utf-8").strip()
    arguments = {"spreadsheet_id": sheet, "sheet": "nhl-202425-asplayed_schedule"}
    # The result is {"spreadsheetId": …, "valueRanges": [{"range": …, "values": [[…], …]}]}: one record, whose
    # column "values" has the rows of the sheet.
    count = "coalesce(sum(days = 1 AND kind = '{0}'), 0) AS {0}"
    sql = (
        "WITH game AS (SELECT v.value ->> 0 AS day, v.value ->> 3 AS visitor, v.value ->> 5 AS home "
        'FROM results, json_each(results."values") AS v WHERE v.key > 0), '
        "played AS (SELECT visitor AS team, day, 'A' AS place FROM game UNION ALL SELECT home, day, 'H' FROM game), "
        "pair AS (SELECT team, place || lead(place) OVER w AS kind, julianday(lead(day) OVER w) - julianday(day) AS days "
        "FROM played WINDOW w AS (PARTITION BY team ORDER BY day)) "
        f"SELECT team, {', '.join(count.format(kind) for kind in ['HA', 'AH', 'HH', 'AA'])}, "
        "coalesce(sum(days = 1), 0) AS total FROM pair GROUP BY team"
    )
    return [{"tool": "get_sheet_data", "arguments": arguments}], sql, expected


ENVIRONMENTS = {
    "WoocommerceStockAlertS2LEnv": ("woocommerce", "WOOCOMMERCE_DATA_DIR", "woocommerce", stock_alert),
    "FilterLowSellingProductsS2LEnv": ("woocommerce", "WOOCOMMERCE_DATA_DIR", "woocommerce", low_selling),
    "ABTestingS2LEnv": ("google_cloud", "GOOGLE_CLOUD_DATA_DIR", "google_cloud", conversion),
    "NhlB2bAnalysisS2LEnv": ("google_sheet", "GOOGLE_SHEET_DATA_DIR", "google_sheets", back_to_back),
}


def create(configuration, output):
    """Creates the environment. LOCA-bench writes every failure into a log and goes on."""
    module, environment = configuration["env_class"].rsplit(".", 1)
    with contextlib.redirect_stdout(sys.stderr):
        getattr(importlib.import_module(module), environment)(
            task_dir=str(output), **configuration["env_params"]
        )
    log = read_log(output)
    failures = [line for line in log if FAILURE.search(line)]
    if failures:
        raise RuntimeError(f"the environment was not created: {failures[0].strip()}")
    if not any(COMPLETED in line for line in log):
        raise RuntimeError("the environment was not created: its log does not say that it was completed")


def read_log(output):
    file = output / "logs/env.log"
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []


def main():
    loca, config, name, state, output = sys.argv[1:]
    loca, output = pathlib.Path(loca).resolve(), pathlib.Path(output).resolve()
    sys.path.insert(0, str(loca))
    # The environments start Python programs of their own.
    os.environ["PYTHONPATH"] = str(loca)
    all_configurations = json.loads((loca / "task-configs" / config).read_text())["configurations"]
    states = [one for one in all_configurations if one["name"] == name]
    server, variable, data, ask = ENVIRONMENTS[name]
    try:
        create(states[int(state)], output)
        calls, sql, answer = ask(output)
    except Exception as error:
        traceback.print_exc()
        print(*read_log(output)[-LOG_LINES:], f"error: {error}", sep="\n", file=sys.stderr)
        sys.exit(1)
    print(
        json.dumps(
            {
                "server": [sys.executable, str(loca / "mcp_convert/mcps" / server / "server.py")],
                "variables": {
                    variable: str(output / "local_db" / data),
                    "LOCA_QUIET": "1",
                    "PYTHONPATH": str(loca),
                },
                "calls": calls,
                "sql": sql,
                "answer": answer,
            }
        )
    )


if __name__ == "__main__":
    main()
