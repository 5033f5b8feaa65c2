//! Tables, logs and base64 in text: their descriptors, and queries on them.

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn g14_sql_reads_every_table_in_text() {
    let fixture = Fixture::new();
    let queries = [
        (r#"SELECT "price, EUR" FROM results WHERE id = 3"#, r#"{"price, EUR":"3,50"}"#),
        ("SELECT sum(score) AS s FROM results", r#"{"s":72.0}"#),
        ("SELECT name FROM results WHERE id = 2", r#"{"name":"a | `2`"}"#),
        ("SELECT max(n) AS n FROM results", r#"{"n":11}"#),
        ("SELECT count(*) AS n FROM results WHERE name = ''", r#"{"n":1}"#),
        ("SELECT name FROM results WHERE id = 11", r#"{"name":"n11"}"#),
        ("SELECT NAME AS n FROM results WHERE RESTARTS = '1 (3d ago)'", r#"{"n":"web-2"}"#),
        (
            r#"SELECT count(*) AS n FROM results WHERE "CONTAINER ID" LIKE '3f%' AND PORTS = ''"#,
            r#"{"n":6}"#,
        ),
        ("SELECT max(VSZ) AS v FROM results", r#"{"v":12345678}"#),
        ("SELECT min(PID) AS p FROM results", r#"{"p":100}"#),
        (r#"SELECT "Mounted on" AS m FROM results LIMIT 1"#, r#"{"m":"/mnt/0"}"#),
        ("SELECT count(*) AS n FROM results WHERE Version < 1.2", r#"{"n":4}"#),
        ("SELECT n FROM results WHERE retry_2 = 3", r#"{"n":5}"#),
        ("SELECT a FROM results WHERE _prefix LIKE '%:07,123 INFO%'", r#"{"a":7}"#),
        ("SELECT count(DISTINCT _prefix) AS n FROM results", r#"{"n":12}"#),
    ];
    let samples = testkit::text_tables::samples();
    assert_eq!(samples.len(), queries.len());
    for ((layout, text, _), (sql, answer)) in samples.into_iter().zip(queries) {
        let payload = format!("As requested:\n\n{text}\nTook 3 ms.\n");
        let descriptor = fixture.descriptor("read_rows", &payload);
        assert_eq!(descriptor["summary"]["kind"], "records", "{descriptor}");
        assert_eq!(descriptor["summary"]["form"], layout);
        assert_eq!(
            descriptor["lro"]["notes"],
            json!([{"part": 1, "text": "As requested:"}, {"part": 2, "text": "Took 3 ms."}])
        );
        let reference = &descriptor["lro"]["ref"];
        let (_, lines) = fixture.ask("lro_extract", &json!({"ref": reference, "sql": sql}));
        assert_eq!(lines, [answer], "{layout}: {sql}");
        // The text around the table is searched as well.
        let pattern = json!({"ref": reference, "pattern": "Took \\d"});
        let (first, _) = fixture.ask("search_large_output", &pattern);
        assert_eq!(first, "1 of 1 matching lines.", "{layout}");
    }
}

#[test]
fn g26_base64_has_no_preview() {
    let fixture = Fixture::new();
    let text = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9bcdfghijklmopqstuvxyz12345678/Z+QwErTy"
        .repeat(40);
    let descriptor = fixture.descriptor("read_image", &text);
    let summary = &descriptor["summary"];
    assert_eq!((&summary["kind"], &summary["media_type"]), (&json!("base64"), &json!("image/png")));
    assert_eq!(summary["decoded_bytes"], text.len() / 4 * 3);
    assert_eq!(descriptor["lro"].get("preview"), None);
    let guidance = descriptor["guidance"].as_str().unwrap();
    assert!(guidance.starts_with("Base64 of 2460 bytes"), "{guidance}");
    assert!(guidance.contains("base64 -d"), "{guidance}");
    assert!(!descriptor.to_string().contains("iVBOR"));
    let range = json!({"ref": descriptor["lro"]["ref"], "start": 0, "end": 8});
    let (_, lines) = fixture.ask("read_large_output", &range);
    assert_eq!(lines, ["iVBORw0K"]);
}
