//! Tests of the environments: replies, the script, and the way through the proxy.

use std::fs;

use lro_core::records::{Content, Detected};
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row};

use super::*;

#[test]
fn rows_are_compared_in_any_order_and_with_tolerance() {
    let reply = "3 of 3 rows.\nNote: \"x\" is read as y\n{\"team\":\"b\",\"n\":1,\"p\":70.04}\n{\"team\":\"a\",\"n\":2,\"p\":71}\n";
    let rows = rows(reply);
    assert_eq!(rows.len(), 2);
    let expected =
        vec![vec![json!("a"), json!(2), json!(71.0)], vec![json!("b"), json!(1), json!(70.0)]];
    assert!(same_rows(rows.clone(), &expected));
    assert!(!same_rows(rows.clone(), &expected[..1]));
    let mut wrong = expected;
    wrong[1][1] = json!(3);
    assert!(!same_rows(rows, &wrong));
    assert!(!same(&json!(2.05), &json!(2)));
    // LOCA-bench calls its check with 0.05, although the default of that is 0.1.
    assert!(same(&json!(70.04), &json!(70.0)));
    assert!(!same(&json!(70.06), &json!(70.0)));
}

#[test]
fn the_first_line_of_a_reply_says_how_many_rows_there_are() {
    let first = "41 of 120 rows. More: offset=41.\nNote: 1 of 2\n{\"n\":1}\n";
    assert_eq!((next_offset(first), total_rows(first)), (Some(41), Some(120)));
    let last = "38 of 120 rows.\n{\"text\":\" More: offset=5.\"}\n";
    assert_eq!((next_offset(last), total_rows(last)), (None, Some(120)));
    let counted = "41 of at least 120 rows. More: offset=82.\n";
    assert_eq!((next_offset(counted), total_rows(counted)), (Some(82), None));
}

#[test]
fn a_row_of_the_table_has_means_and_counts() {
    let mut results = EnvironmentResults {
        environment: "NhlB2bAnalysisS2LEnv".to_owned(),
        size: "8k".to_owned(),
        ..EnvironmentResults::default()
    };
    let measured = EnvironmentMeasurement {
        calls: 1,
        returned_tokens: 12_000,
        shown_tokens: 600,
        stored_tokens: 600,
        sql_calls: 1,
        reply_tokens: 100,
        is_right: true,
    };
    results.add(measured);
    results.add(EnvironmentMeasurement { is_right: false, ..measured });
    results.add(EnvironmentMeasurement { sql_calls: 4, reply_tokens: 6100, ..measured });
    results.failed = 1;
    let all = [results];
    let table = table(&all);
    let row = "\n| NhlB2bAnalysis | 8k | 1 | 12000 | 600 | 600 | 2.0 | 2100 | 1 of 3, 1 failed | 2 of 3 | 1 |";
    assert!(table.ends_with(row), "{table}");
    let summary = summary(&all);
    let counts =
        "Of 3 answers, 1 are right in one SQL call, and 2 if replies are continued; 1 answers";
    assert!(summary.starts_with(counts), "{summary}");
}

#[test]
fn every_environment_of_the_script_is_asked() {
    let script = Repository::open().unwrap().read(SCRIPT).unwrap();
    for (environment, sizes) in ENVIRONMENTS {
        assert!(script.contains(&format!("\"{environment}\": (")), "{environment}");
        assert!(sizes <= SIZES.len());
    }
    assert_eq!(script.matches("S2LEnv\": (").count(), ENVIRONMENTS.len());
}

/// What LOCA-bench does: its environments write failures into a log, and return.
const FAKE_ENVIRONMENT: &str = r#"
import pathlib

class Fake:
    def __init__(self, task_dir, log):
        output = pathlib.Path(task_dir)
        for name in ["logs", "files", "groundtruth_workspace"]:
            (output / name).mkdir(parents=True)
        (output / "logs/env.log").write_text(log)
        (output / "files/sheet_id.txt").write_text("sheet-1\n")
        answer = "Team,HA,AH,HH,AA,Total\nBoston,1,2,0,0,3\n"
        (output / "groundtruth_workspace/standard_answer.csv").write_text(answer)
        print("not a part of the output")
"#;

#[test]
fn a_failure_in_the_log_of_an_environment_is_an_error_with_its_cause() {
    let logs = [
        "INFO - NHL B2B Analysis preprocessing completed!",
        "ERROR - Preprocessing failed\nModuleNotFoundError: No module named 'pandas'",
        "INFO - Copied files/ from /loca/files\nINFO - preprocessing completed!",
        "INFO - Starting",
    ];
    let name = "NhlB2bAnalysisS2LEnv";
    let configurations: Vec<Value> = logs
        .iter()
        .map(|log| json!({"name": name, "env_class": "fake.Fake", "env_params": {"log": log}}))
        .collect();
    let loca = TempDir::new().unwrap();
    fs::create_dir(loca.path().join("task-configs")).unwrap();
    let file = loca.path().join("task-configs/final_8k_set_config.json");
    fs::write(file, json!({"configurations": configurations}).to_string()).unwrap();
    fs::write(loca.path().join("fake.py"), FAKE_ENVIRONMENT).unwrap();
    let script = Script {
        python: testkit::tool::require("python3"),
        path: Repository::open().unwrap().path(SCRIPT),
        directory: loca.path().to_owned(),
    };
    let create = |state: usize| {
        let sandbox = TempDir::new().unwrap();
        script.create(name, "8k", state, &sandbox.path().join("environment"))
    };
    let environment = create(0).unwrap();
    let boston = vec![json!("Boston"), json!(1), json!(2), json!(0), json!(0), json!(3)];
    assert_eq!(environment.answer, [boston]);
    assert_eq!(environment.calls[0].arguments["spreadsheet_id"], "sheet-1");
    let failure = |state: usize| format!("{:#}", create(state).unwrap_err());
    assert!(failure(1).contains("No module named 'pandas'"), "{}", failure(1));
    assert!(failure(2).contains("Copied files/ from"), "{}", failure(2));
    assert!(failure(3).contains("does not say that it was completed"), "{}", failure(3));
}

#[test]
fn only_the_end_of_a_failure_is_printed() {
    assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
    assert_eq!(last_lines("a", 2), "a");
}

/// The calls, the statement and the answer of an environment whose files are in `output`.
fn question(function: &str, output: &Path) -> (Vec<EnvironmentCall>, String, Vec<Vec<Value>>) {
    let program = "import json, pathlib, sys, environment\n\
                   ask = getattr(environment, sys.argv[1])\n\
                   print(json.dumps(ask(pathlib.Path(sys.argv[2]))))";
    let scripts = Repository::open().unwrap().path("bench/evidence/loca");
    let asked = Command::new(testkit::tool::require("python3"))
        .args(["-B", "-c", program, function])
        .arg(output)
        .env("PYTHONPATH", scripts)
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    serde_json::from_slice(&asked.stdout).unwrap()
}

#[test]
fn a_product_without_metadata_sold_nothing_in_both_the_rule_and_the_statement() {
    let sales = |key: &str, value: &str| json!({"key": key, "value": value});
    let metadata = [
        json!([]),
        json!([sales("sales_last_30_days", "12")]),
        json!([sales("_sales_last_30_days", "3"), sales("sales_last_30_days", "30")]),
        json!([sales("_sales_last_30_days", "30"), sales("sales_last_30_days", "3")]),
    ];
    let output = TempDir::new().unwrap();
    let shop = output.path().join("local_db/woocommerce");
    fs::create_dir_all(&shop).unwrap();
    let database = Connection::open_in_memory().unwrap();
    database
        .execute_batch("CREATE TABLE results (id, sku, stock_quantity, date_created, meta_data)")
        .unwrap();
    let mut products = Map::new();
    for (id, metadata) in (1..).zip(&metadata) {
        let date = "2020-01-01T00:00:00";
        let (sku, stock_quantity) = (format!("sku-{id}"), -1);
        let product = json!({
            "id": id, "sku": sku, "stock_quantity": stock_quantity, "date_created": date,
            "meta_data": metadata,
        });
        products.insert(id.to_string(), product);
        let row = (id, sku, stock_quantity, date, metadata.to_string());
        database.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?)", row).unwrap();
    }
    fs::write(shop.join("products.json"), Value::from(products).to_string()).unwrap();
    let (calls, sql, answer) = question("low_selling", output.path());
    assert_eq!(calls.len(), 1);
    // As LOCA-bench: the first entry counts.
    assert_eq!(answer, [[json!(1)], [json!(3)]]);
    assert_eq!(first_column::<i64>(&database, &sql), [1, 3]);
    // A stock of less than nothing is below a threshold that is missing.
    let (_, sql, answer) = question("stock_alert", output.path());
    assert_eq!(answer.len(), 4);
    let skus = first_column::<String>(&database, &sql);
    assert_eq!(skus, ["sku-1", "sku-2", "sku-3", "sku-4"]);
}

fn first_column<T: FromSql>(database: &Connection, sql: &str) -> Vec<T> {
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_scenario_that_was_drawn_twice_is_expected_once() {
    let output = TempDir::new().unwrap();
    for name in ["files", "groundtruth_workspace"] {
        fs::create_dir(output.path().join(name)).unwrap();
    }
    let mut names = vec!["Fitness".to_owned()];
    names.extend((0..19).map(|n| format!("s{n:02}")));
    let mut expected =
        "scenario,A_conversion %,B_conversion %\nFitness,10.000%,10.000%\n".to_owned();
    for name in &names {
        fs::write(output.path().join(format!("files/ab_{name}.csv")), "").unwrap();
        let _ = writeln!(expected, "{name},70.000%,60.000%");
    }
    expected.push_str("overall,70.000%,60.000%\n");
    fs::write(output.path().join("groundtruth_workspace/expected_ratio.csv"), expected).unwrap();
    let (calls, sql, answer) = question("conversion", output.path());
    // 20 tables, of which one SQL call reads 16 results at most: two tables in a result.
    assert_eq!((calls.len(), answer.len()), (10, 21));
    assert!(answer.contains(&vec![json!("Fitness"), json!(70.0), json!(60.0)]), "{answer:?}");
    let database = Connection::open_in_memory().unwrap();
    for (n, scenarios) in names.chunks(2).enumerate() {
        let table = if n == 0 { "results".to_owned() } else { format!("r{n}") };
        let columns = "scenario, A_clicks, A_store_views, B_clicks, B_store_views";
        database.execute_batch(&format!("CREATE TABLE {table} ({columns})")).unwrap();
        for scenario in scenarios {
            let query = calls[n].arguments["query"].as_str().unwrap();
            assert!(query.contains(&format!("`ab_testing.ab_{scenario}`")), "{query}");
            let row = (scenario, 1000, 700, 1000, 600);
            let insert = format!("INSERT INTO {table} VALUES (?, ?, ?, ?, ?)");
            database.execute(&insert, row).unwrap();
        }
    }
    let mut statement = database.prepare(&sql).unwrap();
    let row = |row: &Row<'_>| -> rusqlite::Result<Vec<Value>> {
        let (name, a, b): (String, f64, f64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(vec![json!(name), json!(a), json!(b)])
    };
    let rows: Vec<_> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    assert!(same_rows(rows, &answer));
}

#[test]
fn the_rows_of_a_sheet_are_a_column_of_its_only_record() {
    let game = |day: &str, visitor: &str, home: &str| json!([day, "", "", visitor, 1, home, 2]);
    let rows = json!([
        ["Date", "", "", "Visitor", "G", "Home", "G"],
        game("2024-10-08", "Boston", "Ottawa"),
        game("2024-10-09", "Boston", "Calgary"),
        game("2024-10-10", "Ottawa", "Boston"),
    ]);
    let sheet = json!({"spreadsheetId": "x", "valueRanges": [{"range": "y", "values": rows}]});
    let Content::Records(records) = Detected::detect(sheet.to_string().as_bytes()).content else {
        panic!("no records");
    };
    assert_eq!((records.form.path(), records.count), (&["valueRanges".to_owned()][..], 1));
    let output = TempDir::new().unwrap();
    for name in ["files", "groundtruth_workspace"] {
        fs::create_dir(output.path().join(name)).unwrap();
    }
    fs::write(output.path().join("files/sheet_id.txt"), "x\n").unwrap();
    let expected =
        "Team,HA,AH,HH,AA,Total\nBoston,0,1,0,1,2\nCalgary,0,0,0,0,0\nOttawa,0,0,0,0,0\n";
    fs::write(output.path().join("groundtruth_workspace/standard_answer.csv"), expected).unwrap();
    let (_, sql, answer) = question("back_to_back", output.path());
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch("CREATE TABLE results (range, \"values\")").unwrap();
    database.execute("INSERT INTO results VALUES ('y', ?)", [rows.to_string()]).unwrap();
    let mut statement = database.prepare(&sql).unwrap();
    let row = |row: &Row<'_>| -> rusqlite::Result<Vec<Value>> {
        let mut values = vec![json!(row.get::<_, String>(0)?)];
        for column in 1..6 {
            values.push(json!(row.get::<_, i64>(column)?));
        }
        Ok(values)
    };
    let rows: Vec<_> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows, answer);
}

#[test]
fn the_document_has_the_part() {
    let document = Repository::open().unwrap().read(DOCUMENT).unwrap();
    check_part(&document, DOCUMENT, PART).unwrap();
}
