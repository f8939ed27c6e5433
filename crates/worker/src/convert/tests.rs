use std::time::{Duration, Instant};

use super::{
    answer, charset, hits,
    hits::{Hit, Verdict},
    markdown::is_running,
    scan::{Piece, Scan, unescaped},
    strip, trim,
};

fn text_of(mode: &str, page: &str) -> String {
    let mut input =
        format!("{{\"mode\":\"{mode}\",\"address\":\"https://a.example/dir/\"}}\n").into_bytes();
    input.extend_from_slice(page.as_bytes());
    let said = answer(&input).unwrap();
    let json = wire::Json::checked_before(&said);
    json.get("text").unwrap().as_str().unwrap().into_owned()
}

#[test]
fn a_page_becomes_markdown() {
    let text = text_of(
        "markdown",
        "<title>t</title><h2>Head</h2><ul><li>one<li>two</ul><pre><code>a  b</code></pre><a href='x'>link</a><table><tr><th>a</th></tr><tr><td>1</td></tr></table>",
    );
    for part in [
        "## Head",
        "one",
        "two",
        "a  b",
        "[link](https://a.example/dir/x)",
        "| 1",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn links_that_run_something_are_dropped_however_they_are_written() {
    for href in [
        "javascript:x",
        "JaVaScRiPt:x",
        " java\tscript:x",
        "java&#115;cript:x",
        "data:text/html,x",
        "vbscript:x",
    ] {
        assert!(is_running(&unescaped(href)), "{href}");
        let text = text_of(
            "markdown",
            &format!("<p>a <a href=\"{href}\">b</a> <img src=\"{href}\" alt=c></p>"),
        );
        let plain = text.replace(char::is_whitespace, "").to_lowercase();
        for scheme in ["javascript:", "data:", "vbscript:"] {
            assert!(!plain.contains(scheme), "{href}: {text}");
        }
        assert!(text.contains('b'), "{text}");
    }
    let text = text_of(
        "markdown",
        "<p>[x](javascript:alert(1)) and &lt;javascript:y&gt;</p>",
    );
    assert!(
        !text.to_lowercase().contains("(javascript:") && !text.contains("<javascript:"),
        "{text}"
    );
    assert!(!is_running("https://a.example/javascript:x") && !is_running("javascripts"));
}

#[test]
fn a_page_without_tags_is_its_words() {
    let page = "<title>no</title><div>One <b>t</b>wo</div><script>if (a<b) {}</script><p>three &amp; four<br>five</p><!-- six -->";
    assert_eq!(strip::text(page), "One two\nthree & four\nfive");
    assert_eq!(strip::text("a < b <3 c"), "a < b <3 c");
}

#[test]
fn pieces_are_found_as_a_browser_finds_them() {
    let names = |page: &str| -> Vec<String> {
        let tags = Scan::new(page).filter_map(|piece| match piece {
            Piece::Tag(tag) => Some(format!("{}{}", if tag.is_end { "/" } else { "" }, tag.name)),
            _ => None,
        });
        tags.collect()
    };
    assert_eq!(names("<a title='>'>x</a>"), ["a", "/a"]);
    assert_eq!(
        names("<script><b></script ><i>"),
        ["script", "/script", "i"]
    );
    assert_eq!(names("<!-- <a> --><b><!doctype x><?y?><c"), ["b"]);
    assert_eq!(names("<a x=\"<b>\" y=it's>z"), ["a"]);
}

#[test]
fn a_page_is_cut_to_what_people_write() {
    let deep = format!("{}x{}", "<div>".repeat(2000), "</div>".repeat(2000));
    let cut = trim::page(&deep);
    assert_eq!(
        (cut.matches("<div>").count(), cut.matches("</div>").count()),
        (512, 512)
    );
    assert!(cut.contains('x'));
    let list = format!("<ul>{}</ul>", "<li>a".repeat(3000));
    assert_eq!(
        trim::page(&list).matches("<li>").count(),
        3000,
        "siblings are no depth"
    );
    let wide = format!("<p title='{}' id=a>", "x".repeat(10_000));
    assert_eq!(trim::page(&wide), "<p id=\"a\">");
}

#[test]
fn letters_are_read_as_they_were_meant() {
    for (bytes, header, text, name) in [
        (&b"caf\xe9"[..], "text/html", "café", "windows-1252"),
        (b"caf\xc3\xa9", "text/html", "café", "UTF-8"),
        (
            b"caf\xc3\xa9",
            "text/html; charset=\"ISO-8859-1\"",
            "cafÃ©",
            "windows-1252",
        ),
        (b"\xef\xbb\xbfx", "text/html; charset=latin1", "x", "UTF-8"),
        (b"\xff\xfea\0", "", "a", "UTF-16LE"),
        (
            b"<meta charset='shift_jis'>\x83\x65",
            "",
            "<meta charset='shift_jis'>テ",
            "Shift_JIS",
        ),
    ] {
        let (read, used) = charset::decode(bytes, header);
        assert_eq!((&*read, used), (text, name), "{header}");
    }
}

#[test]
fn answers_of_engines_are_hits_or_say_why_there_are_none() {
    let hit = |title: &str, url: &str, snippet: &str| Hit {
        title: title.to_owned(),
        url: url.to_owned(),
        snippet: snippet.to_owned(),
    };
    let none = "<div class='no-results'>nothing</div>";
    assert_eq!(hits::duckduckgo(none), Verdict::Hits(Vec::new()));
    assert_eq!(
        hits::duckduckgo("<form id=challenge-form>"),
        Verdict::Blocked
    );
    assert_eq!(hits::duckduckgo("<html><p>new</p>"), Verdict::Changed);
    let page = "<a class='x result__a' href='https://e.example/'>A <b>b</b></a><div class=result__snippet>c &lt; d</div>\
                <a class=result__a href='javascript:x'>bad</a><a class=result__a href='//duckduckgo.com/y.js?ad'>ad</a>";
    let found = vec![hit("A b", "https://e.example/", "c < d")];
    assert_eq!(hits::duckduckgo(page), Verdict::Hits(found));
    let keys = ["title", "url", "description"];
    let brave = r#"{"web":{"results":[{"title":"T <b>x</b>","url":"https://e.example/","description":"D"}]}}"#;
    let found = vec![hit("T x", "https://e.example/", "D")];
    assert_eq!(
        hits::listed(brave, &["web", "results"], keys),
        Verdict::Hits(found)
    );
    assert_eq!(
        hits::listed(r#"{"query":{}}"#, &["web", "results"], keys),
        Verdict::Hits(Vec::new())
    );
    for changed in ["{}", "<html>", "[]", "{\"web\":1}"] {
        assert_eq!(
            hits::listed(changed, &["web", "results"], keys),
            Verdict::Changed,
            "{changed}"
        );
    }
}

/// What would be slow with a pass that goes back is as fast as any other page of its length.
#[test]
fn scanning_takes_time_by_length_alone() {
    let pieces = [
        "<",
        "<a ",
        "<a href=\"",
        "</",
        "<!--",
        "<script>",
        "&",
        "<a b=c ",
        "\"'",
        "<div>",
        "</p>",
        "=\"",
        "<p/",
        "&#1;",
    ];
    for piece in pieces {
        let page = piece.repeat((2 << 20) / piece.len());
        let begun = Instant::now();
        drop(trim::page(&page));
        drop(strip::text(&page));
        drop(hits::duckduckgo(&page));
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{piece:?}: {:?}",
            begun.elapsed()
        );
    }
}
