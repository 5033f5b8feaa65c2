//! A browser for tests: it visits a page and goes where it is sent.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    thread,
    time::Duration,
};

/// Visits an `http` URL on loopback and follows redirects; the last page, with its head.
pub fn visit(url: &str) -> io::Result<String> {
    let mut url = url.to_owned();
    for _ in 0..5 {
        let page = fetch(&url)?;
        let location = page.lines().take_while(|line| !line.is_empty()).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        match location {
            Some(next) => url = next,
            None => return Ok(page),
        }
    }
    Err(io::Error::other("more than five redirects"))
}

/// The same beside the test, as a person's browser is.
pub fn visit_in_background(url: &str) -> thread::JoinHandle<io::Result<String>> {
    let url = url.to_owned();
    thread::spawn(move || visit(&url))
}

fn fetch(url: &str) -> io::Result<String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| io::Error::other(url.to_owned()))?;
    let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut page = String::new();
    let mut length = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
        page.push_str(line.trim_end());
        page.push('\n');
        if line.trim().is_empty() {
            break;
        }
    }
    reader.take(length.unwrap_or(u64::MAX)).read_to_string(&mut page)?;
    Ok(page)
}
