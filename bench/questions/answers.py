"""Computes the answers to all questions from the serialized tool results, as a second opinion.

    questions-server --dump DIR && python3 answers.py DIR

Prints {"kind": {"question": answer}}. It shares no code with the generator and uses the standard library only.
"""

import base64
import csv
import io
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path


def counted(values):
    return [[value, count] for value, count in sorted(Counter(values).items())]


def top(values, most):
    ranked = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    return [list(pair) for pair in ranked[:most]]


def summed(pairs):
    sums = defaultdict(int)
    for key, amount in pairs:
        sums[key] += amount
    return [list(pair) for pair in sorted(sums.items())]


def issues(text):
    page = json.loads(text)
    items = page["items"]
    names = [label["name"] for item in items for label in item["labels"]]
    ranked = sorted(items, key=lambda item: (-item["comments"], item["number"]))
    return {
        "next_cursor": [page["next_cursor"]],
        "busy_open_bugs": [
            sum(
                1
                for item in items
                if item["state"] == "open"
                and item["comments"] > 20
                and "bug" in [label["name"] for label in item["labels"]]
            )
        ],
        "most_discussed": [[item["number"], item["comments"]] for item in ranked[:5]],
        "top_reporters": top((item["user"]["login"] for item in items), 3),
        "closed_at": [item["closed_at"] for item in items if item["number"] == 3977],
        "by_label": counted(names),
    }


def graphql(text):
    response = json.loads(text)
    pulls = response["data"]["repository"]["pullRequests"]
    nodes = pulls["nodes"]
    return {
        "end_cursor": [pulls["pageInfo"]["endCursor"]],
        "error_message": [error["message"] for error in response["errors"]],
        "drafts_by_author": top((node["author"]["login"] for node in nodes if node["isDraft"]), 3),
        "merged_additions": [sum(node["additions"] for node in nodes if node["state"] == "MERGED")],
        "changes_requested": [
            node["number"]
            for node in nodes
            if node["state"] == "OPEN" and node["reviewDecision"] == "CHANGES_REQUESTED"
        ],
        "author_of": [node["author"]["login"] for node in nodes if node["number"] == 8128],
    }


def services(text):
    entries = json.loads(text)
    values = list(entries.values())
    largest = max(entries, key=lambda key: entries[key]["memory_mb"])
    return {
        "status_of": [entries["svc-0434"]["status"]],
        "degraded_in_region": [
            key for key, value in entries.items() if (value["status"], value["region"]) == ("degraded", "eu-west-1")
        ],
        "replicas_by_team": summed((value["owner"]["team"], value["replicas"]) for value in values),
        "most_memory": [[largest, entries[largest]["memory_mb"]]],
        "stale_deploys": [sum(value["last_deploy"] < "2026-06-01" for value in values)],
        "without_on_call": [sum(value["owner"]["on_call"] is None for value in values)],
    }


def workspace(text):
    export = json.loads(text)
    team_of = {user["id"]: user["team_id"] for user in export["users"]}
    teams = {team["id"]: team for team in export["teams"]}
    events = export["events"]
    return {
        "users_by_role": counted(user["role"] for user in export["users"]),
        "events_per_team": top((teams[team_of[event["user_id"]]]["name"] for event in events), 3),
        "inactive_admins": [
            user["id"] for user in export["users"] if user["role"] == "admin" and not user["active"]
        ],
        "failed_logins": top((event["user_id"] for event in events if event["type"] == "login_failed"), 1),
        "highest_order": [max(events, key=lambda event: event["order"])["id"]],
        "cost_center_of_user": [teams[team_of["u-0117"]]["cost_center"]],
    }


def orders(text):
    records = json.loads(text[text.index("[") : text.rindex("]") + 1])
    note = re.search(r"Note: totals are in (minor units)", text)
    return {
        "unit_of_totals": [note.group(1)],
        "paid_euros": [
            sum(order["total"] for order in records if (order["status"], order["currency"]) == ("paid", "EUR"))
        ],
        "refunded_in_september": [
            order["id"]
            for order in records
            if order["status"] == "refunded" and order["placed_at"][:7] == "2026-09"
        ],
        "orders_by_country": counted(order["customer"]["country"] for order in records),
        "arms_sold": [
            sum(item["quantity"] for order in records for item in order["items"] if item["sku"] == "ST-ARM")
        ],
        "customer_of": [order["customer"]["id"] for order in records if order["id"] == "ord_20597"],
    }


def transactions(text):
    statement = json.loads(text)
    bookings = statement["transactions"]
    return {
        "warning": re.findall(r"before [\d-]+", statement["warnings"][0]),
        "spent_by_category": summed(
            (booking["category"], booking["amountCents"]) for booking in bookings if booking["amountCents"] < 0
        ),
        "largest_payment": [min(bookings, key=lambda booking: booking["amountCents"])["id"]],
        "utilities_in_july": [
            sum(booking["category"] == "utilities" and booking["bookedAt"][:7] == "2026-07" for booking in bookings)
        ],
        "without_memo": [sum(booking["memo"] is None for booking in bookings)],
        "top_payees": top((booking["counterparty"]["name"] for booking in bookings), 2),
    }


def log(text):
    lines = text.splitlines()
    errors = [match.group(1) for line in lines if (match := re.search(r"ERROR \[(\w+)\]", line))]
    slow = [re.search(r"request (\w+) took (\d+) ms", line) for line in lines]
    return {
        "errors_by_component": counted(errors),
        "last_lines": lines[-3:],
        "timeouts": [sum("timed out after" in line for line in lines)],
        "slow_requests": [match.group(1) for match in slow if match and int(match.group(2)) > 9975],
        "warnings_in_window": [
            sum(line.split()[1] == "WARN" and "09:00" <= line[11:16] < "09:10" for line in lines)
        ],
        "first_mailer_error": [next(line for line in lines if "ERROR [mailer]" in line)],
    }


def invoices(text):
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=";"))
    return {
        "overdue_by_country": counted(row["country"] for row in rows if row["status"] == "overdue"),
        "largest_invoice": [max(rows, key=lambda row: float(row["net"]))["invoice_no"]],
        "issued_in_march": [sum(row["issued"].startswith("2026-03") for row in rows)],
        "quantity_sweden": [sum(int(row["quantity"]) for row in rows if row["country"] == "SE")],
        "customer_of": [row["customer"] for row in rows if row["invoice_no"] == "RE-00403"],
        "top_customers": top((row["customer"] for row in rows), 3),
    }


def report(text):
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    rows = [dict(zip(cells[0], row)) for row in cells[2:]]
    ranked = sorted(rows, key=lambda row: (-int(row["duration_ms"]), int(row["id"])))
    return {
        "failed_by_suite": counted(row["suite"] for row in rows if row["status"] == "failed"),
        "slowest": [[int(row["id"]), int(row["duration_ms"])] for row in ranked[:3]],
        "billing_time": [sum(int(row["duration_ms"]) for row in rows if row["suite"] == "billing")],
        "flaky": [sum(row["status"] == "passed" and int(row["retries"]) > 0 for row in rows)],
        "owner_of": [row["owner"] for row in rows if row["id"] == "418"],
        "coverage": re.findall(r"Coverage fell to (\S+) %", text),
    }


def pods(text):
    lines = text.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])] + [None]
    names = lines[0].split()
    rows = [
        {name: line[start:end].strip() for name, start, end in zip(names, starts, starts[1:])} for line in lines[1:]
    ]
    restarts = [int(row["RESTARTS"].split()[0]) for row in rows]
    return {
        "by_status": counted(row["STATUS"] for row in rows),
        "crashing_by_namespace": counted(row["NAMESPACE"] for row in rows if row["STATUS"] == "CrashLoopBackOff"),
        "most_restarts": [rows[restarts.index(max(restarts))]["NAME"]],
        "pending_on_node": [row["NAME"] for row in rows if (row["STATUS"], row["NODE"]) == ("Pending", "node-4")],
        "node_of": [rows[333]["NODE"]],
        "restarted_pods": [sum(count > 0 for count in restarts)],
    }


def events(text):
    records = [json.loads(line) for line in text.splitlines()]

    def of(kind):
        return [record for record in records if record["type"] == kind]

    return {
        "by_type": counted(record["type"] for record in records),
        "failure_codes": counted(record["payment"]["code"] for record in of("payment.failed")),
        "created_total": [sum(record["order"]["total"] for record in of("order.created"))],
        "slow_webhooks": [record["id"] for record in of("webhook.delivered") if record["duration_ms"] > 3500],
        "last_refund": [of("payment.refunded")[-1]["id"]],
        "internal_errors": [sum(record.get("status") == 500 for record in records)],
    }


def commits(text):
    records = json.loads(text)
    largest = max(records, key=lambda record: record["stats"]["total"])
    return {
        "by_author": counted(record["commit"]["author"]["name"] for record in records),
        "unverified": counted(
            record["commit"]["author"]["name"]
            for record in records
            if not record["commit"]["verification"]["verified"]
        ),
        "in_june": [sum(record["commit"]["author"]["date"].startswith("2026-06") for record in records)],
        "merges": [sum(len(record["parents"]) > 1 for record in records)],
        "largest": [[largest["sha"], largest["stats"]["total"]]],
        "touching_token": [
            sum("src/auth/token.rs" in [file["filename"] for file in record["files"]] for record in records)
        ],
    }


def picture(text):
    lines = text.split("\n")
    decoded = base64.b64decode(text)
    return {
        "file_type": [{b"\x89PNG": "png"}[decoded[:4]]],
        "text_size": [len(text.encode())],
        "line_at": [lines[300]],
        "last_characters": [text[-20:]],
        "line_of_marker": [line for line in lines if "QXRsYXRs" in line],
        "double_slashes": [sum("//" in line for line in lines)],
    }


def traces(text):
    lines = text.split("\n")
    failures = [number for number, line in enumerate(lines) if " ERROR " in line]
    named = [match.group(1) for line in lines if (match := re.match(r"Caused by: ([\w.]+):", line))]
    return {
        "by_exception": counted(lines[number + 1].split(":")[0] for number in failures),
        "root_causes": counted(named),
        "frames_at_charge": [sum("PaymentClient.java:88)" in line for line in lines)],
        "exception_of_request": [lines[number + 1] for number in failures if "req-7fa32" in lines[number]],
        "failures_in_hour": [sum(lines[number].split()[1].startswith("14:") for number in failures)],
        "last_failure": [lines[failures[-1]]],
    }


def key_values(text):
    rows = [dict(re.findall(r'(\w+)=(".*?"|\S+)', line)) for line in text.splitlines()]
    return {
        "failures_by_service": counted(row["service"] for row in rows if int(row["status"]) >= 500),
        "slow_traces": [row["trace_id"] for row in rows if int(row["duration_ms"]) > 5900],
        "retried": [sum(row["retry"] == "true" for row in rows)],
        "not_found_in_window": [
            sum(row["status"] == "404" and "09:00" <= row["time"][11:16] < "09:30" for row in rows)
        ],
        "slowest_shipping": [max(int(row["duration_ms"]) for row in rows if row["service"] == "shipping")],
        "service_of_trace": [rows[511]["service"]],
    }


def prefixed_json(text):
    records = [json.loads(line[line.index("{") :]) for line in text.splitlines()]
    checkouts = [record for record in records if record["route"] == "/checkout"]
    checkouts.sort(key=lambda record: (-record["latency_ms"], record["seq"]))
    return {
        "by_level": counted(record["level"] for record in records),
        "errors_by_route": counted(record["route"] for record in records if record["level"] == "error"),
        "slowest_checkouts": [[record["seq"], record["latency_ms"]] for record in checkouts[:3]],
        "denied_admin": [sum((record["route"], record["outcome"]) == ("/admin", "denied") for record in records)],
        "busiest_users": top((record["user"]["id"] for record in records), 2),
        "login_latency": [sum(record["latency_ms"] for record in records if record["route"] == "/login")],
    }


KINDS = {
    "issues": issues,
    "graphql": graphql,
    "map": services,
    "arrays": workspace,
    "prose": orders,
    "wrapped": transactions,
    "log": log,
    "csv": invoices,
    "markdown": report,
    "kubectl": pods,
    "ndjson": events,
    "commits": commits,
    "base64": picture,
    "traces": traces,
    "logfmt": key_values,
    "jsonlog": prefixed_json,
}


def main(directory):
    answers = {}
    for kind, compute in KINDS.items():
        result = json.loads((Path(directory) / f"{kind}.json").read_text())
        answers[kind] = compute(result["content"][0]["text"])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
