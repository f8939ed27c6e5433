//! What a hostile site can do with an answer: it costs an error, or a page without its form, and nobody else notices.

use std::{io::Write, time::Instant};

use serde_json::json;

use super::{
    client, fetch, opened,
    site::{Answer, Site, answer, html},
    told,
};

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn long(length: usize) -> Answer {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n");
    Answer::Bytes(head.into_bytes())
}

#[tokio::test]
async fn no_answer_takes_more_than_it_may() {
    let site = Site::start(|asked| match asked.path() {
        "/bomb" => answer(
            "200 OK",
            "content-type: text/html\r\ncontent-encoding: gzip\r\n",
            &packed(&vec![b'a'; 64 << 20]),
        ),
        "/twice" => answer(
            "200 OK",
            "content-type: text/html\r\ncontent-encoding: gzip, gzip\r\n",
            &packed(&packed(b"x")),
        ),
        "/two" => answer(
            "200 OK",
            "content-type: text/html\r\ncontent-encoding: gzip\r\ncontent-encoding: gzip\r\n",
            &packed(&packed(b"x")),
        ),
        "/long" => long(100 << 20),
        "/head" => answer("200 OK", &format!("x: {}\r\n", "y".repeat(128 << 10)), b""),
        "/half" => long(100),
        "/drip" => Answer::Drip,
        "/silent" => Answer::Silence,
        _ => html("<p>fine</p>"),
    })
    .await;
    let gate = opened(&[&site], "").await;
    let client = client(&gate).await;
    let pid = crate::support::worker_pid(&gate).await;
    for (path, begins) in [
        ("/bomb", "TOO_LARGE"),
        ("/twice", "NETWORK_ERROR"),
        ("/two", "NETWORK_ERROR"),
        ("/long", "TOO_LARGE"),
        ("/head", "NETWORK_ERROR"),
        ("/half", "NETWORK_ERROR"),
    ] {
        let got = fetch(&client, json!({ "url": site.at(path) })).await;
        assert!(
            got.is_error && got.text.starts_with(begins),
            "{path}: {}",
            got.answer
        );
    }
    let begun = Instant::now();
    for path in ["/drip", "/silent"] {
        let got = fetch(&client, json!({ "url": site.at(path), "timeout_secs": 2 })).await;
        assert!(
            got.is_error && got.text.contains("timeout"),
            "{path}: {}",
            got.answer
        );
    }
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    let got = fetch(&client, json!({ "url": site.at("/fine") })).await;
    assert_eq!(got.text, "fine", "{}", got.answer);
    assert_eq!(
        crate::support::worker_pid(&gate).await,
        pid,
        "servers' worker has no part in it"
    );
}

#[tokio::test]
async fn a_page_that_takes_too_much_is_given_without_its_form() {
    let site = Site::start(|asked| match asked.path() {
        // What has so many zeros is no page to a converter.
        "/zeros" => html(&format!("<p>words</p>{}", "\0".repeat(64))),
        "/deep" => html(&format!("{}<p>ground</p>", "<div>".repeat(50_000))),
        "/tags" => html(&format!("<p>a</p><{}", "a ".repeat(200_000))),
        "/wide" => html(&format!("<p {}>broad</p>", "x=\"y\" ".repeat(50_000))),
        "/quotes" => html(&format!("<p>q</p>{}", "<a href=\"".repeat(50_000))),
        "/marks" => html(&format!("<p>m</p>{}", "&".repeat(300_000))),
        "/comments" => html(&format!("<p>c</p>{}", "<!-- ".repeat(100_000))),
        "/tables" => html(&format!("{}cell", "<table><tr><td>".repeat(5_000))),
        "/scripts" => html(&format!("<p>s</p>{}", "<script>".repeat(50_000))),
        _ => html("<p>fine</p>"),
    })
    .await;
    let gate = opened(&[&site], "").await;
    let client = client(&gate).await;
    let zeros = fetch(&client, json!({ "url": site.at("/zeros") })).await;
    assert!(
        !zeros.is_error && zeros.text.contains("words"),
        "{}",
        zeros.answer
    );
    for path in [
        "/deep",
        "/tags",
        "/wide",
        "/quotes",
        "/marks",
        "/comments",
        "/tables",
        "/scripts",
    ] {
        let begun = Instant::now();
        let got = fetch(&client, json!({ "url": site.at(path), "timeout_secs": 60 })).await;
        assert!(!got.is_error, "{path}: {}", got.answer);
        assert!(told(&got)["content"].is_string(), "{path}");
        assert!(
            begun.elapsed().as_secs() < 61,
            "{path}: {:?}",
            begun.elapsed()
        );
    }
    let got = fetch(&client, json!({ "url": site.at("/deep") })).await;
    assert!(got.text.contains("ground"), "{}", got.answer);
}
