//! Results without JSON around them: a log of 2 MB, stack traces, base64, `key=value` lines and JSON
//! behind a log prefix.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::corpus::{Corpus, count_by, int, sentence, text_result, time, top};
use crate::SplitMix64;

const COMPONENTS: [&str; 6] = ["api", "db", "scheduler", "cache", "mailer", "auth"];
const LOG_BYTES: usize = 2_000_000;

/// A log of one day.
pub(super) fn log() -> Corpus {
    let mut random = SplitMix64::new(2312);
    let mut text = String::new();
    let (mut errors, mut timeouts, mut slow, mut warnings) = (Vec::new(), 0, Vec::new(), 0);
    let mut first_mailer_error = None;
    let mut lines: Vec<String> = Vec::new();
    while text.len() < LOG_BYTES {
        let elapsed = i64::try_from(lines.len()).unwrap_or(0) * 7 / 2;
        let stamp = format!(
            "{}.{:03}Z",
            time(1_794_787_200 + elapsed).trim_end_matches('Z'),
            random.below(1000)
        );
        let level = *random.pick(&[
            "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR",
        ]);
        let component = *random.pick(&COMPONENTS);
        let request = format!("r{:07x}", random.below(0xfff_ffff));
        let message = match random.below(5) {
            0 => {
                let took = random.below(10_000);
                if took > 9_975 {
                    slow.push(request.clone());
                }
                format!("request {request} took {took} ms, {}", sentence(&mut random, 5))
            }
            1 if level == "ERROR" => {
                timeouts += 1;
                format!(
                    "upstream {} timed out after {} ms",
                    random.pick(&COMPONENTS),
                    1000 + random.below(9_000)
                )
            }
            2 => format!("job {} finished, {} items left", random.below(90_000), random.below(400)),
            _ => sentence(&mut random, 9).to_lowercase(),
        };
        let line = format!("{stamp} {level:<5} [{component}] {message}");
        if level == "ERROR" {
            errors.push(component);
            if component == "mailer" && first_mailer_error.is_none() {
                first_mailer_error = Some(line.clone());
            }
        }
        warnings += usize::from(level == "WARN" && stamp.starts_with("2026-11-16T09:0"));
        text += &line;
        text.push('\n');
        lines.push(line);
    }
    Corpus::new("log", "read_log", text_result(&[&text]))
        .answer("errors_by_component", count_by(errors.into_iter()))
        .answer("last_lines", json!(lines[lines.len() - 3..]))
        .answer("timeouts", json!([timeouts]))
        .answer("slow_requests", json!(slow))
        .answer("warnings_in_window", json!([warnings]))
        .answer("first_mailer_error", json!([first_mailer_error]))
}

const EXCEPTIONS: [&str; 5] = [
    "java.lang.IllegalStateException",
    "java.lang.NullPointerException",
    "com.acme.payments.PaymentDeclinedException",
    "java.util.concurrent.TimeoutException",
    "org.springframework.dao.DataAccessException",
];
const CAUSES: [&str; 3] = [
    "java.sql.SQLTransientConnectionException",
    "java.net.SocketTimeoutException",
    "java.io.EOFException",
];
const FRAMES: [&str; 8] = [
    "com.acme.orders.CartService.checkout(CartService.java:118)",
    "com.acme.orders.OrderController.submit(OrderController.java:61)",
    "com.acme.payments.PaymentClient.charge(PaymentClient.java:88)",
    "com.acme.payments.PaymentClient.retry(PaymentClient.java:131)",
    "com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:197)",
    "org.springframework.web.method.support.InvocableHandlerMethod.doInvoke(InvocableHandlerMethod.java:205)",
    "org.apache.catalina.core.StandardWrapperValve.invoke(StandardWrapperValve.java:167)",
    "java.base/java.lang.Thread.run(Thread.java:833)",
];

/// Crash reports with stack traces.
pub(super) fn traces() -> Corpus {
    let mut random = SplitMix64::new(2313);
    let mut lines: Vec<String> = Vec::new();
    let (mut exceptions, mut causes, mut charges, mut afternoon) = (Vec::new(), Vec::new(), 0, 0);
    let (mut asked, mut last) = (Value::Null, String::new());
    for index in 0..170_i64 {
        let at = time(1_794_700_800 + index * 503);
        let (day, clock) = (&at[..10], &at[11..19]);
        let request = format!("req-{:05x}", 0x7f000 + index * 29);
        let exception = *random.pick(&EXCEPTIONS);
        last = format!(
            "{day} {clock},{:03} ERROR [http-nio-8080-exec-{}] c.a.orders.OrderController - Request {request} failed",
            random.below(1000),
            random.below(16)
        );
        afternoon += usize::from(clock.starts_with("14:"));
        lines.push(last.clone());
        lines.push(format!("{exception}: {}", sentence(&mut random, 6)));
        if request == "req-7fa32" {
            asked = json!([lines.last()]);
        }
        exceptions.push(exception);
        let frames = |random: &mut SplitMix64, lines: &mut Vec<String>, charges: &mut usize| {
            for _ in 0..5 + random.below(7) {
                let frame = *random.pick(&FRAMES);
                *charges += usize::from(frame.contains("PaymentClient.java:88"));
                lines.push(format!("\tat {frame}"));
            }
        };
        frames(&mut random, &mut lines, &mut charges);
        if random.chance(45) {
            let cause = *random.pick(&CAUSES);
            causes.push(cause);
            lines.push(format!("Caused by: {cause}: {}", sentence(&mut random, 4)));
            frames(&mut random, &mut lines, &mut charges);
            lines.push(format!("\t... {} more", 10 + random.below(30)));
        }
        lines.push(String::new());
    }
    Corpus::new("traces", "get_crash_reports", text_result(&[&lines.join("\n")]))
        .answer("by_exception", count_by(exceptions.into_iter()))
        .answer("root_causes", count_by(causes.into_iter()))
        .answer("frames_at_charge", json!([charges]))
        .answer("exception_of_request", asked)
        .answer("failures_in_hour", json!([afternoon]))
        .answer("last_failure", json!([last]))
}

/// A picture as base64 in lines of 76 characters, as `base64` writes it.
pub(super) fn picture() -> Corpus {
    let mut random = SplitMix64::new(2314);
    let mut bytes = vec![0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0, 0, 0, 13];
    bytes.extend(b"IHDR");
    while bytes.len() < 48_000 {
        bytes.extend(random.next_u64().to_le_bytes());
    }
    // At a multiple of three, within one line of the text.
    bytes[57 * 200 + 12..][..6].copy_from_slice(b"Atlatl");
    let encoded = STANDARD.encode(&bytes);
    let lines: Vec<&str> = encoded
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).unwrap_or_default())
        .collect();
    let text = lines.join("\n");
    let double = lines.iter().filter(|line| line.contains("//")).count();
    Corpus::new("base64", "download_file", text_result(&[&text]))
        .answer("file_type", json!(["png"]))
        .answer("text_size", json!([text.len()]))
        .answer("line_at", json!([lines[300]]))
        .answer("last_characters", json!([text[text.len() - 20..]]))
        .answer("line_of_marker", json!([lines[200]]))
        .answer("double_slashes", json!([double]))
}

const SERVICES: [&str; 5] = ["checkout", "catalog", "accounts", "shipping", "search"];

/// Access logs as `key=value`.
pub(super) fn key_values() -> Corpus {
    let mut random = SplitMix64::new(2315);
    let mut text = String::new();
    let (mut failed, mut slow, mut retried, mut window) = (Vec::new(), Vec::new(), 0, 0);
    let mut rows: Vec<(String, i64, &str)> = Vec::new();
    for index in 0..950_i64 {
        let service = *random.pick(&SERVICES);
        let status = *random.pick(&[200, 200, 200, 200, 201, 404, 500, 503]);
        let level = if status >= 500 { "error" } else { "info" };
        let message = match status {
            500 => "unhandled exception",
            503 => "upstream unavailable",
            404 => "not found",
            _ => "request completed",
        };
        let duration = int(&mut random, 2_000) * 3 + index % 3;
        let trace = format!("{:016x}", random.next_u64());
        let at = time(1_794_816_000 + index * 11);
        let path = format!("/v1/{service}/{}", random.pick(&["list", "item", "update"]));
        let retry = random.chance(9);
        if status >= 500 {
            failed.push(service);
        }
        if duration > 5_900 {
            slow.push(trace.clone());
        }
        retried += usize::from(retry);
        window += usize::from(
            status == 404
                && at.as_str() >= "2026-11-16T09:00:00Z"
                && at.as_str() < "2026-11-16T09:30:00Z",
        );
        let method = *random.pick(&["GET", "POST", "PUT"]);
        let _ = writeln!(
            text,
            "time={at} level={level} service={service} method={method} path={path} status={status} duration_ms={duration} retry={retry} trace_id={trace} msg=\"{message}\""
        );
        rows.push((trace, duration, service));
    }
    let slowest = rows.iter().filter(|row| row.2 == "shipping").map(|row| row.1).max();
    Corpus::new("logfmt", "query_access_log", text_result(&[&text]))
        .answer("failures_by_service", count_by(failed.into_iter()))
        .answer("slow_traces", json!(slow))
        .answer("retried", json!([retried]))
        .answer("not_found_in_window", json!([window]))
        .answer("slowest_shipping", json!([slowest]))
        .answer("service_of_trace", json!([rows[511].2]))
}

/// Lines of a container log: a prefix, then JSON.
pub(super) fn prefixed_json() -> Corpus {
    let mut random = SplitMix64::new(2316);
    let mut text = String::new();
    let (mut levels, mut routes, mut latencies, mut users) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut denied = 0;
    for index in 0..620_i64 {
        let at = time(1_794_823_200 + index * 9);
        let level = *random.pick(&["info", "info", "info", "debug", "warn", "error"]);
        let route = *random.pick(&["/login", "/cart", "/checkout", "/profile", "/admin"]);
        let latency = 3 + int(&mut random, 1_500) * 2 + index % 2;
        let user = format!("usr_{}", random.below(45) * random.below(45) / 45);
        let code = *random.pick(&["ok", "ok", "ok", "denied", "conflict"]);
        let event = json!({
            "level": level, "route": route, "latency_ms": latency, "user": {"id": user, "plan": *random.pick(&["free", "pro", "team"])},
            "outcome": code, "message": sentence(&mut random, 6), "seq": index + 1,
        });
        let _ = writeln!(text, "{at} shop-web-{} stdout {event}", random.below(4));
        if level == "error" {
            routes.push(route);
        }
        denied += usize::from(code == "denied" && route == "/admin");
        latencies.push((index + 1, latency, route));
        levels.push(level);
        users.push(user);
    }
    let mut slowest: Vec<&(i64, i64, &str)> =
        latencies.iter().filter(|row| row.2 == "/checkout").collect();
    slowest.sort_by_key(|row| (std::cmp::Reverse(row.1), row.0));
    let slowest: Vec<Value> = slowest.iter().take(3).map(|row| json!([row.0, row.1])).collect();
    let total: i64 = latencies.iter().filter(|row| row.2 == "/login").map(|row| row.1).sum();
    Corpus::new("jsonlog", "container_logs", text_result(&[&text]))
        .answer("by_level", count_by(levels.into_iter()))
        .answer("errors_by_route", count_by(routes.into_iter()))
        .answer("slowest_checkouts", json!(slowest))
        .answer("denied_admin", json!([denied]))
        .answer("busiest_users", top(users.iter().map(String::as_str), 2))
        .answer("login_latency", json!([total]))
}
