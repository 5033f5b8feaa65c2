//! The page that the browser shows after the OAuth callback.

/// A whole HTTP answer: `status` as in `200 OK`, a heading of ours, and a text of anybody's.
pub(crate) fn page(status: &str, heading: &str, text: &str) -> Vec<u8> {
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Atlatl</title>\n\
         <h1>{}</h1>\n<p>{}</p>\n</html>\n",
        escaped(heading),
        escaped(text)
    );
    // The address holds a code: it goes into no cache, and to no other site.
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n\
         Content-Length: {}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_text() {
        let page = String::from_utf8(page("200 OK", "a", "<script src='x'>\"&")).unwrap();
        assert!(page.contains("&lt;script src=&#39;x&#39;&gt;&quot;&amp;"), "{page}");
        assert!(!page.contains("<script"));
    }
}
