//! `atlatl config show`.

use serde_json::json;

use crate::program::Program;

#[test]
fn defaults_for_a_person() {
    let run = Program::new().run(&["config", "show"]);
    insta::assert_snapshot!(run, @r#"
    status: 0
    --- stdout
    KEY                               VALUE
    prompt.offload.enabled            true
    prompt.offload.threshold_tokens   1600
    prompt.offload.ttl_seconds        3600
    prompt.offload.output_dir         "" = the system's temporary directory
    prompt.offload.descriptor         "full"
    prompt.offload.recipes            true
    prompt.offload.preview_tokens     300
    prompt.offload.reply_tokens       1600
    prompt.offload.shared_filesystem  false
    proxy.threshold_tokens            10000
    proxy.ttl_seconds                 86400
    proxy.dir                         "" = {state dir}/results
    proxy.tools                       "all"
    proxy.policy                      {}
    proxy.references                  "same-server"
    proxy.path_map.from               ""
    proxy.path_map.to                 ""
    proxy.headers                     []
    proxy.silence_seconds             300
    spool.max_bytes                   10737418240
    spool.max_files                   10000
    spool.min_free_bytes              1073741824
    spool.readable_by                 "owner"
    spool.url                         ""
    query.wall_ms                     5000
    query.memory_bytes                0 = 256 MiB + 8 × file
    query.output_bytes                1048576
    query.workers                     4
    memory.store                      "" = sqlite:{data dir}/memory.db
    memory.tenant                     "default"
    memory.connections                8
    memory.prepared_statements        "auto"
    memory.allow_plain                false
    memory.password_file              ""
    memory.password_command           []
    memory.embedder                   "auto"
    server.listen                     ""
    server.allowed_hosts              []
    server.allowed_origins            []
    server.auth                       ""
    server.public_url                 "" = http://{server.listen}
    server.drain_seconds              0
    server.audit                      ""
    server.tenant_claim               "tenant"
    server.issuers                    {}
    server.database_ms_per_second     0
    server.admin.listen               ""
    server.log.format                 "text"
    server.log.level                  "info"
    ledger.path                       "" = {state dir}/ledger.jsonl
    ledger.retention_days             90
    --- stderr
    "#);
}

#[test]
fn defaults_for_a_program() {
    let run = Program::new().run(&["config", "show", "--json"]);
    insta::assert_snapshot!(run, @r#"
    status: 0
    --- stdout
    {
      "prompt": {
        "offload": {
          "enabled": true,
          "threshold_tokens": 1600,
          "ttl_seconds": 3600,
          "output_dir": "",
          "descriptor": "full",
          "recipes": true,
          "preview_tokens": 300,
          "reply_tokens": 1600,
          "shared_filesystem": false
        }
      },
      "proxy": {
        "threshold_tokens": 10000,
        "ttl_seconds": 86400,
        "dir": "",
        "tools": "all",
        "policy": {},
        "references": "same-server",
        "path_map": {
          "from": "",
          "to": ""
        },
        "headers": [],
        "silence_seconds": 300
      },
      "spool": {
        "max_bytes": 10737418240,
        "max_files": 10000,
        "min_free_bytes": 1073741824,
        "readable_by": "owner",
        "url": ""
      },
      "query": {
        "wall_ms": 5000,
        "memory_bytes": 0,
        "output_bytes": 1048576,
        "workers": 4
      },
      "memory": {
        "store": "",
        "tenant": "default",
        "connections": 8,
        "prepared_statements": "auto",
        "allow_plain": false,
        "password_file": "",
        "password_command": [],
        "embedder": "auto"
      },
      "server": {
        "listen": "",
        "allowed_hosts": [],
        "allowed_origins": [],
        "auth": "",
        "public_url": "",
        "drain_seconds": 0,
        "audit": "",
        "tenant_claim": "tenant",
        "issuers": {},
        "database_ms_per_second": 0,
        "admin": {
          "listen": ""
        },
        "log": {
          "format": "text",
          "level": "info"
        }
      },
      "ledger": {
        "path": "",
        "retention_days": 90
      }
    }
    --- stderr
    "#);
}

#[test]
fn origins_for_a_person() {
    let run = Program::new()
        .file("work/atlatl.toml", "[prompt.offload]\nenabled = false\n[proxy]\nttl_seconds = 5\n")
        .file("home/.config/atlatl/config.toml", "proxy.policy.\"Foo_*\" = \"inline\"\n")
        .variable("ATLATL_PROMPT__OFFLOAD__TTL_SECONDS", "60")
        .run(&[
            "config",
            "show",
            "--origin",
            "--output=human",
            "--set",
            "proxy.policy.Bar={ threshold_tokens = 5 }",
        ]);
    insta::assert_snapshot!(run, @r#"
    status: 0
    --- stdout
    KEY                               VALUE                                  ORIGIN
    prompt.offload.enabled            false                                  atlatl.toml:2
    prompt.offload.threshold_tokens   1600                                   default
    prompt.offload.ttl_seconds        60                                     ATLATL_PROMPT__OFFLOAD__TTL_SECONDS
    prompt.offload.output_dir         "" = the system's temporary directory  default
    prompt.offload.descriptor         "full"                                 default
    prompt.offload.recipes            true                                   default
    prompt.offload.preview_tokens     300                                    default
    prompt.offload.reply_tokens       1600                                   default
    prompt.offload.shared_filesystem  false                                  default
    proxy.threshold_tokens            10000                                  default
    proxy.ttl_seconds                 5                                      atlatl.toml:4
    proxy.dir                         "" = {state dir}/results               default
    proxy.tools                       "all"                                  default
    proxy.policy."Bar"                { threshold_tokens = 5 }               --set
    proxy.policy."Foo_*"              "inline"                               [DIR]/home/.config/atlatl/config.toml:1
    proxy.references                  "same-server"                          default
    proxy.path_map.from               ""                                     default
    proxy.path_map.to                 ""                                     default
    proxy.headers                     []                                     default
    proxy.silence_seconds             300                                    default
    spool.max_bytes                   10737418240                            default
    spool.max_files                   10000                                  default
    spool.min_free_bytes              1073741824                             default
    spool.readable_by                 "owner"                                default
    spool.url                         ""                                     default
    query.wall_ms                     5000                                   default
    query.memory_bytes                0 = 256 MiB + 8 × file                 default
    query.output_bytes                1048576                                default
    query.workers                     4                                      default
    memory.store                      "" = sqlite:{data dir}/memory.db       default
    memory.tenant                     "default"                              default
    memory.connections                8                                      default
    memory.prepared_statements        "auto"                                 default
    memory.allow_plain                false                                  default
    memory.password_file              ""                                     default
    memory.password_command           []                                     default
    memory.embedder                   "auto"                                 default
    server.listen                     ""                                     default
    server.allowed_hosts              []                                     default
    server.allowed_origins            []                                     default
    server.auth                       ""                                     default
    server.public_url                 "" = http://{server.listen}            default
    server.drain_seconds              0                                      default
    server.audit                      ""                                     default
    server.tenant_claim               "tenant"                               default
    server.issuers                    {}                                     default
    server.database_ms_per_second     0                                      default
    server.admin.listen               ""                                     default
    server.log.format                 "text"                                 default
    server.log.level                  "info"                                 default
    ledger.path                       "" = {state dir}/ledger.jsonl          default
    ledger.retention_days             90                                     default
    --- stderr
    "#);
}

#[test]
fn origins_for_a_program() {
    let run = Program::new()
        .file("work/atlatl.toml", "[prompt.offload]\nenabled = false\n")
        .variable("ATLATL_PROMPT__OFFLOAD__TTL_SECONDS", "60")
        .run(&["config", "show", "--origin", "--set", "proxy.policy.Foo_*=inline", "--json"]);
    let list = run.json();
    let item = |key: &str| list.as_array().unwrap().iter().find(|item| item["key"] == key).unwrap();
    assert_eq!(
        item("prompt.offload.enabled"),
        &json!({
            "key": "prompt.offload.enabled",
            "value": false,
            "origin": {"layer": "project", "file": "atlatl.toml", "line": 2},
        })
    );
    assert_eq!(
        item("prompt.offload.ttl_seconds")["origin"],
        json!({"layer": "environment", "variable": "ATLATL_PROMPT__OFFLOAD__TTL_SECONDS"})
    );
    assert_eq!(item("proxy.policy.\"Foo_*\"")["origin"], json!({"layer": "flag"}));
    assert_eq!(item("proxy.dir")["origin"], json!({"layer": "default"}));
}

#[test]
fn secrets_are_not_shown() {
    for args in [&["config", "show"][..], &["config", "show", "--origin"]] {
        for form in [&[][..], &["--json"]] {
            let run = Program::new()
                .variable("ATLATL_SERVER__AUTH", "hidden")
                .variable("ATLATL_MEMORY__STORE", "postgres://ann:hidden@db.example/m")
                .run(&[args, form].concat());
            assert_eq!(run.status, 0);
            assert!(!run.to_string().contains("hidden"), "{run}");
            assert!(run.stdout.contains("postgres://ann:***@db.example/m"), "{run}");
        }
    }
}

#[test]
fn a_file_cannot_steer_the_terminal() {
    let run = Program::new()
        .file("work/atlatl.toml", "proxy.policy.\"a\\u001b[2J\\u009b\" = \"inline\"\n")
        .run(&["config", "show", "--origin"]);
    let rows = run.lines("proxy.policy");
    assert!(rows[0].starts_with(r#"proxy.policy."a\u001b[2J<U+009B>""#), "{rows:?}");
}

#[test]
fn colours_stay_out_of_pipes() {
    let run = Program::new().variable("NO_COLOR", "1").run(&["config", "show", "--output=human"]);
    assert!(!run.stdout.contains('\u{1b}'));
}
