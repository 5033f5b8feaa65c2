//! Results of business applications: a workspace with three arrays, orders behind a sentence, wrapped
//! transactions, invoices as CSV with semicolons, and events of several kinds.

use serde_json::{Value, json};

use super::corpus::{Corpus, count_by, int, sentence, sum_by, text_result, time, top};
use crate::SplitMix64;

const TEAMS: [&str; 12] = [
    "Billing",
    "Platform",
    "Search",
    "Mobile",
    "Web",
    "Data",
    "Security",
    "Support",
    "Growth",
    "Payments",
    "Identity",
    "Observability",
];
const ROLES: [&str; 4] = ["member", "admin", "viewer", "billing_manager"];
const EVENT_TYPES: [&str; 6] = [
    "login",
    "login_failed",
    "document.viewed",
    "document.edited",
    "invite.sent",
    "export.started",
];

/// An export with three arrays: users, teams and events.
pub(super) fn workspace() -> Corpus {
    let mut random = SplitMix64::new(2304);
    let centers: Vec<String> =
        (0..TEAMS.len()).map(|team| format!("CC-{}", 4100 + team * 37)).collect();
    // Team, role, active.
    let users: Vec<(usize, &str, bool)> = (0..320)
        .map(|_| {
            let role = if random.chance(8) { "admin" } else { *random.pick(&ROLES) };
            (
                random.below(TEAMS.len()) * random.below(TEAMS.len()) / TEAMS.len(),
                role,
                random.chance(88),
            )
        })
        .collect();
    // User, type, time, order: the order is unique and not the position.
    let events: Vec<(usize, &str, i64, usize)> = (0..1400)
        .map(|index| {
            let user = random.below(users.len()) * random.below(users.len()) / users.len();
            (
                user,
                *random.pick(&EVENT_TYPES),
                1_789_000_000 + index * 371,
                (usize::try_from(index).unwrap_or(0) * 613) % 1409,
            )
        })
        .collect();
    let user_id = |user: usize| format!("u-{:04}", user + 1);
    let payload = json!({
        "workspace": "acme-prod", "exported_at": time(1_789_600_000),
        "users": users.iter().enumerate().map(|(user, (team, role, active))| json!({
            "id": user_id(user), "name": format!("User {}", user + 1), "email": format!("user{}@example.com", user + 1),
            "team_id": team + 1, "role": role, "active": active})).collect::<Vec<_>>(),
        "teams": TEAMS.iter().enumerate().map(|(team, name)| json!({
            "id": team + 1, "name": name, "cost_center": centers[team]})).collect::<Vec<_>>(),
        "events": events.iter().enumerate().map(|(index, (user, kind, at, order))| json!({
            "id": format!("ev-{:05}", index + 1), "type": kind, "user_id": user_id(*user), "at": time(*at),
            "order": order, "ip": format!("10.{}.{}.{}", order % 7, user % 250, index % 250)})).collect::<Vec<_>>(),
    });
    let admins: Vec<String> = users
        .iter()
        .enumerate()
        .filter(|(_, (_, role, active))| *role == "admin" && !active)
        .map(|(user, _)| user_id(user))
        .collect();
    let failed: Vec<String> = events
        .iter()
        .filter(|event| event.1 == "login_failed")
        .map(|event| user_id(event.0))
        .collect();
    let last = events.iter().enumerate().max_by_key(|(_, event)| event.3);
    Corpus::new("arrays", "export_workspace", text_result(&[&payload.to_string()]))
        .answer("users_by_role", count_by(users.iter().map(|user| user.1)))
        .answer("events_per_team", top(events.iter().map(|event| TEAMS[users[event.0].0]), 3))
        .answer("inactive_admins", json!(admins))
        .answer("failed_logins", top(failed.iter().map(String::as_str), 1))
        .answer("highest_order", json!([last.map(|(index, _)| format!("ev-{:05}", index + 1))]))
        .answer("cost_center_of_user", json!([centers[users[116].0]]))
}

const COUNTRIES: [&str; 7] = ["DE", "FR", "NL", "PL", "ES", "SE", "IT"];
const SKUS: [&str; 9] =
    ["KB-100", "KB-210", "MS-330", "MS-340", "HD-512", "HD-1024", "CB-USB3", "CB-HDMI", "ST-ARM"];

struct Order {
    id: String,
    customer: usize,
    status: &'static str,
    cents: i64,
    currency: &'static str,
    placed: i64,
    items: Vec<(&'static str, i64)>,
}

/// Orders in a code fence, with a sentence before and after it.
pub(super) fn orders() -> Corpus {
    let mut random = SplitMix64::new(2305);
    let orders: Vec<Order> = (0..360)
        .map(|index| Order {
            id: format!("ord_{:05}", 20_117 + index * 3),
            customer: random.below(60) * random.below(60) / 60,
            status: random.pick::<&str>(&[
                "paid",
                "paid",
                "paid",
                "pending",
                "refunded",
                "cancelled",
            ]),
            cents: 990 + int(&mut random, 90_000),
            currency: if random.chance(80) { "EUR" } else { "SEK" },
            placed: 1_782_864_000 + i64::from(index) * 21_000 + int(&mut random, 9_000),
            items: (0..=random.below(3))
                .map(|_| (*random.pick(&SKUS), 1 + int(&mut random, 4)))
                .collect(),
        })
        .collect();
    let country = |order: &Order| COUNTRIES[order.customer % COUNTRIES.len()];
    let records: Vec<Value> = orders
        .iter()
        .map(|order| {
            let items: Vec<Value> = order.items.iter().map(|(sku, quantity)| json!({"sku": sku, "quantity": quantity})).collect();
            json!({
                "id": order.id,
                "customer": {"id": order.customer + 500, "name": format!("Customer {}", order.customer), "country": country(order)},
                "status": order.status, "total": order.cents, "currency": order.currency,
                "placed_at": time(order.placed), "items": items,
            })
        })
        .collect();
    let text = format!(
        "Found {} orders placed between 2026-07-01 and 2026-09-30.\n\n```json\n{}\n```\n\nNote: totals are in minor units (cents, \u{f6}re).",
        orders.len(),
        Value::Array(records)
    );
    let is_september =
        |order: &&Order| order.status == "refunded" && time(order.placed).starts_with("2026-09");
    let asked = orders.iter().find(|order| order.id == "ord_20597");
    let euros = orders.iter().filter(|order| order.status == "paid" && order.currency == "EUR");
    let arms = orders.iter().flat_map(|order| &order.items).filter(|item| item.0 == "ST-ARM");
    Corpus::new("prose", "search_orders", text_result(&[&text]))
        .answer("unit_of_totals", json!(["minor units"]))
        .answer("paid_euros", json!([euros.map(|order| order.cents).sum::<i64>()]))
        .answer(
            "refunded_in_september",
            orders.iter().filter(is_september).map(|order| json!(order.id)).collect(),
        )
        .answer("orders_by_country", count_by(orders.iter().map(country)))
        .answer("arms_sold", json!([arms.map(|item| item.1).sum::<i64>()]))
        .answer("customer_of", json!([asked.map(|order| order.customer + 500)]))
}

const CATEGORIES: [&str; 7] =
    ["groceries", "rent", "salary", "travel", "utilities", "insurance", "dining"];
const ARCHIVED: &str = "bookings before 2026-02-01 are archived and not included";

/// Transactions whose structured content only wraps the text block.
pub(super) fn transactions() -> Corpus {
    let mut random = SplitMix64::new(2306);
    // Category, cents, booked, memo.
    let bookings: Vec<(&str, i64, i64, Option<String>)> = (0..430)
        .map(|index| {
            let category = *random.pick(&CATEGORIES);
            let cents = 300 + int(&mut random, 70_000) * 2 + index % 2;
            let cents = if category == "salary" { 310_000 + index } else { -cents };
            let memo = random.chance(30).then(|| sentence(&mut random, 5));
            (category, cents, 1_770_000_000 + index * 52_000, memo)
        })
        .collect();
    let records: Vec<Value> = bookings
        .iter()
        .enumerate()
        .map(|(index, (category, cents, booked, memo))| {
            json!({
                "id": format!("tx-{:04}", index + 1), "bookedAt": time(*booked), "amountCents": cents, "currency": "EUR",
                "counterparty": {"name": format!("Payee {}", index % 41), "iban": format!("DE{:020}", index % 41)},
                "category": category, "memo": memo,
            })
        })
        .collect();
    let payload = json!({
        "account": {"iban": "DE89370400440532013000", "balanceCents": 482_913}, "warnings": [ARCHIVED],
        "transactions": records,
    });
    let text = payload.to_string();
    let mut result = text_result(&[&text]);
    result["structuredContent"] = json!({"result": [{"type": "text", "text": text}]});
    let spent =
        bookings.iter().filter(|booking| booking.1 < 0).map(|booking| (booking.0, booking.1));
    let largest = bookings.iter().enumerate().min_by_key(|(_, booking)| booking.1);
    let july = |booking: &&(&str, i64, i64, Option<String>)| {
        booking.0 == "utilities" && time(booking.2).starts_with("2026-07")
    };
    let payees: Vec<String> =
        (0..bookings.len()).map(|index| format!("Payee {}", index % 41)).collect();
    Corpus::new("wrapped", "list_transactions", result)
        .answer("warning", json!(["before 2026-02-01"]))
        .answer("spent_by_category", sum_by(spent))
        .answer(
            "largest_payment",
            json!([largest.map(|(index, _)| format!("tx-{:04}", index + 1))]),
        )
        .answer("utilities_in_july", json!([bookings.iter().filter(july).count()]))
        .answer(
            "without_memo",
            json!([bookings.iter().filter(|booking| booking.3.is_none()).count()]),
        )
        .answer("top_payees", top(payees.iter().map(String::as_str), 2))
}

/// Invoices as a spreadsheet exports them in most of Europe.
pub(super) fn invoices() -> Corpus {
    // Customer, country, issued, days until due, status, quantity, net in cents.
    type Invoice = (String, &'static str, i64, i64, &'static str, i64, i64);
    let mut random = SplitMix64::new(2307);
    let invoices: Vec<Invoice> = (0..900)
        .map(|index| {
            let number = random.below(80);
            let customer = if number.is_multiple_of(9) {
                format!("Muster {number}; Partner GmbH")
            } else {
                format!("Kunde {number} AG")
            };
            let status = *random.pick(&["paid", "paid", "open", "overdue", "cancelled"]);
            let days = *random.pick(&[14, 30, 30, 60]);
            (
                customer,
                *random.pick(&COUNTRIES),
                1_767_225_600 + index / 3 * 86_400,
                days,
                status,
                1 + int(&mut random, 40),
                1_000 + int(&mut random, 900_000) * 3 + index,
            )
        })
        .collect();
    let day = |seconds: i64| time(seconds)[..10].to_owned();
    let mut text = "invoice_no;customer;country;issued;due;status;quantity;net\r\n".to_owned();
    for (index, (customer, country, issued, days, status, quantity, net)) in
        invoices.iter().enumerate()
    {
        let customer =
            if customer.contains(';') { format!("\"{customer}\"") } else { customer.clone() };
        let (issued, due) = (day(*issued), day(issued + days * 86_400));
        let line = format!(
            "RE-{:05};{customer};{country};{issued};{due};{status};{quantity};{}.{:02}\r\n",
            index + 1,
            net / 100,
            net % 100
        );
        text += &line;
    }
    let number = |index: usize| format!("RE-{:05}", index + 1);
    let largest = invoices.iter().enumerate().max_by_key(|(_, invoice)| invoice.6);
    let overdue = invoices.iter().filter(|invoice| invoice.4 == "overdue").map(|invoice| invoice.1);
    let march = |invoice: &&Invoice| day(invoice.2).starts_with("2026-03");
    let quantities = invoices.iter().filter(|invoice| invoice.1 == "SE").map(|invoice| invoice.5);
    Corpus::new("csv", "export_invoices", text_result(&[&text]))
        .answer("overdue_by_country", count_by(overdue))
        .answer("largest_invoice", json!([largest.map(|(index, _)| number(index))]))
        .answer("issued_in_march", json!([invoices.iter().filter(march).count()]))
        .answer("quantity_sweden", json!([quantities.sum::<i64>()]))
        .answer("customer_of", json!([invoices[402].0]))
        .answer("top_customers", top(invoices.iter().map(|invoice| invoice.0.as_str()), 3))
}

/// Newline-delimited events of four types, each with its own fields.
pub(super) fn events() -> Corpus {
    let mut random = SplitMix64::new(2308);
    let mut lines = String::new();
    let (mut kinds, mut created, mut failures, mut slow) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut last_refund, mut internal_errors) = (None, 0);
    for index in 0..640 {
        let at = time(1_788_400_000 + index * 173);
        let id = format!("evt_{:06}", 310_000 + index * 7);
        let kind = *random.pick(&[
            "order.created",
            "order.created",
            "payment.failed",
            "payment.refunded",
            "webhook.delivered",
        ]);
        kinds.push(kind);
        let event = match kind {
            "order.created" => {
                let total = 500 + int(&mut random, 50_000);
                created.push(total);
                json!({"id": id, "type": kind, "at": at, "order": {"id": 7000 + index, "total": total, "items": 1 + int(&mut random, 5)}})
            }
            "payment.failed" => {
                let code = *random.pick(&[
                    "card_declined",
                    "expired_card",
                    "insufficient_funds",
                    "processing_error",
                ]);
                failures.push(code);
                json!({"id": id, "type": kind, "at": at, "payment": {"id": format!("pay_{index}"), "code": code, "attempt": 1 + int(&mut random, 3)}})
            }
            "payment.refunded" => {
                last_refund = Some(id.clone());
                json!({"id": id, "type": kind, "at": at, "payment": {"id": format!("pay_{index}"), "amount": 100 + int(&mut random, 9_000)}, "reason": *random.pick(&["requested_by_customer", "duplicate"])})
            }
            _ => {
                let duration = 20 + int(&mut random, 4_000);
                let status = *random.pick(&[200, 200, 200, 500, 503]);
                internal_errors += i64::from(status == 500);
                if duration > 3_500 {
                    slow.push(id.clone());
                }
                json!({"id": id, "type": kind, "at": at, "url": format!("https://hooks.example.com/{}", index % 13), "status": status, "duration_ms": duration})
            }
        };
        lines.extend([event.to_string(), "\n".to_owned()]);
    }
    Corpus::new("ndjson", "query_events", text_result(&[&lines]))
        .answer("by_type", count_by(kinds.into_iter()))
        .answer("failure_codes", count_by(failures.into_iter()))
        .answer("created_total", json!([created.iter().sum::<i64>()]))
        .answer("slow_webhooks", json!(slow))
        .answer("last_refund", json!([last_refund]))
        .answer("internal_errors", json!([internal_errors]))
}
