//! Tables and logs in text, one for every layout that is detected.

/// `count` lines, each made from its number.
pub fn rows(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|n| line(n) + "\n").collect()
}

/// A text of every layout with its name and the first record. Each has twelve rows, `ps` has thirty.
#[expect(clippy::too_many_lines, reason = "a list")]
pub fn samples() -> Vec<(&'static str, String, &'static str)> {
    vec![
        (
            "semicolon-separated",
            "id;name;price, EUR\n".to_owned() + &rows(12, |n| format!("{n};\"Ann; {n}\";{n},50")),
            r#"{"id":0,"name":"Ann; 0","price, EUR":"0,50"}"#,
        ),
        (
            "pipe-separated",
            "id|name|score\r\n".to_owned() + &rows(12, |n| format!("{n}|x, {n}|{n}.5\r")),
            r#"{"id":0,"name":"x, 0","score":0.5}"#,
        ),
        (
            "markdown table",
            "| **id** | name |  |\n|---:|:---|-|\n".to_owned()
                + &rows(12, |n| format!("| {n} | a \\| `{n}` |  |")),
            r#"{"id":0,"name":"a | `0`","column_3":null}"#,
        ),
        (
            "markdown table",
            "name | n\n--- | ---\n".to_owned() + &rows(12, |n| format!("x{n} | {n}")),
            r#"{"name":"x0","n":0}"#,
        ),
        (
            "ruled table",
            " id | name  | at\n----+-------+----------\n".to_owned()
                + &rows(12, |n| {
                    let name = if n == 1 { "" } else { "Ann B" };
                    format!(" {n:>2} | {name:<5} | 10:00:{n:02}")
                }),
            r#"{"id":0,"name":"Ann B","at":"10:00:00"}"#,
        ),
        (
            "ruled table",
            "+----+------+\n| id | name |\n+----+------+\n".to_owned()
                + &rows(12, |n| format!("| {n:>2} | n{n:<3} |"))
                + "+----+------+\n",
            r#"{"id":0,"name":"n0"}"#,
        ),
        (
            "aligned columns",
            "NAME           READY   STATUS    RESTARTS     AGE\n".to_owned()
                + &rows(12, |n| {
                    let restarts = if n == 2 { "1 (3d ago)" } else { "0" };
                    format!("web-{n:<10} 1/1     Running   {restarts:<12} 5d")
                }),
            r#"{"NAME":"web-0","READY":"1/1","STATUS":"Running","RESTARTS":"0","AGE":"5d"}"#,
        ),
        (
            "aligned columns",
            "CONTAINER ID   IMAGE        COMMAND     PORTS      NAMES\n".to_owned()
                + &rows(12, |n| {
                    let ports = if n % 2 == 0 { "" } else { "80/tcp" };
                    format!(
                        "3f2a9b8c7d{n:02}   nginx:{n:<6} \"/run {n:02}\u{2026}\"  {ports:<8}   web {n}"
                    )
                }),
            concat!(
                r#"{"CONTAINER ID":"3f2a9b8c7d00","IMAGE":"nginx:0","COMMAND":"\"/run 00…\"","#,
                r#""PORTS":"","NAMES":"web 0"}"#
            ),
        ),
        (
            "aligned columns",
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
                .to_owned()
                + &rows(30, |n| {
                    // A wide value moves the others.
                    let vsz = if n == 20 { 12_345_678 } else { n * 1000 };
                    format!(
                        "root     {:>7}  0.0  0.1 {vsz:>6} {:>5} ?        Ss   Nov10   0:05 /sbin/init {n} -x",
                        n * 999,
                        n + 7
                    )
                }),
            concat!(
                r#"{"USER":"root","PID":0,"%CPU":0.0,"%MEM":0.1,"VSZ":0,"RSS":7,"TTY":"?","#,
                r#""STAT":"Ss","START":"Nov10","TIME":"0:05","COMMAND":"/sbin/init 0 -x"}"#
            ),
        ),
        (
            "aligned columns",
            "    PID TTY          TIME CMD\n".to_owned()
                + &rows(12, |n| format!("{:>7} pts/0    00:00:{n:02} bash", n + 100)),
            r#"{"PID":100,"TTY":"pts/0","TIME":"00:00:00","CMD":"bash"}"#,
        ),
        (
            "aligned columns",
            "Filesystem      Size  Used Avail Use% Mounted on\n".to_owned()
                + &rows(12, |n| format!("/dev/sda{n:<7}  40G   {n:>2}G   20G  50% /mnt/{n}")),
            concat!(
                r#"{"Filesystem":"/dev/sda0","Size":"40G","Used":"0G","Avail":"20G","Use%":"50%","#,
                r#""Mounted on":"/mnt/0"}"#
            ),
        ),
        (
            "aligned columns",
            "Package    Version\n---------- -------\n".to_owned()
                + &rows(12, |n| format!("package{n:<3} 1.{n}")),
            r#"{"Package":"package0","Version":1.0}"#,
        ),
        (
            "key=value lines",
            rows(12, |n| {
                let more = if n == 5 { " retry=2 retry=3" } else { "" };
                format!(
                    r#"ts=2026-11-17T10:00:{n:02}Z level=info msg="a \"b\" = {n}" n={n} url=/?a=b{more}"#
                )
            }),
            concat!(
                r#"{"ts":"2026-11-17T10:00:00Z","level":"info","msg":"a \"b\" = 0","n":0,"#,
                r#""url":"/?a=b"}"#
            ),
        ),
        (
            "json after a prefix",
            rows(12, |n| {
                format!(
                    r#"2026-11-17 10:00:{n:02},123 INFO [{{t}}] {{ "a": {n}, "s": "x {{y}}" }}"#
                )
            }),
            r#"{"_prefix":"2026-11-17 10:00:00,123 INFO [{t}]","a":0,"s":"x {y}"}"#,
        ),
        (
            "json after a prefix",
            rows(12, |n| format!(r"[2026-11-17 10:00:{n:02}] worker: {{}}")),
            r#"{"_prefix":"[2026-11-17 10:00:00] worker:"}"#,
        ),
    ]
}
