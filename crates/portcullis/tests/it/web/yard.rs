//! A network of the test's own, in which the addresses that nobody may reach exist and count who connects to them.
//!
//! The test runs itself again in new namespaces of user, network and mounts. There every forbidden range has an address on `lo`, ports 80
//! and 443 are listened on, and names are answered by a script. Whether an address was reached is judged at the listeners alone.
//!
//! `PORTCULLIS_CAMPAIGN` in the environment takes every vector instead of a part of them.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

use super::{
    client, fetch,
    site::{Site, html, redirect},
};
use crate::{
    operator::FLOOR_ONLY,
    support::{config, gate},
};

const INSIDE: &str = "PORTCULLIS_TEST_YARD";
const OUTSIDE: &str = "93.184.215.14";
const INNER: [[u8; 4]; 15] = [
    [10, 1, 2, 3],
    [10, 255, 255, 254],
    [127, 0, 0, 1],
    [127, 8, 8, 8],
    [169, 254, 169, 254],
    [172, 16, 5, 5],
    [172, 31, 255, 1],
    [192, 168, 7, 7],
    [100, 64, 3, 3],
    [100, 127, 3, 3],
    [192, 0, 2, 5],
    [198, 18, 0, 9],
    [198, 51, 100, 4],
    [203, 0, 113, 7],
    [192, 0, 0, 8],
];
const INNER_SIX: [&str; 8] = [
    "fd00::5",
    "fd00:ec2::254",
    "fec0::7",
    "64:ff9b::a01:203",
    "64:ff9b:1::a01:203",
    "2002:a01:203::1",
    "2001:db8::9",
    "3fff::1",
];

fn run(program: &str, args: &[&str]) -> Output {
    let said = Command::new(program).args(args).output();
    said.unwrap_or_else(|error| panic!("{program}: {error}"))
}

#[tokio::test]
async fn no_address_inside_is_ever_connected_to() {
    if std::env::var_os(INSIDE).is_some() {
        return yard().await;
    }
    let own = std::env::current_exe().unwrap();
    let name = "web::yard::no_address_inside_is_ever_connected_to";
    let mut again = tokio::process::Command::new("unshare");
    again
        .args(["--user", "--map-root-user", "--net", "--mount", "--"])
        .arg(own)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .kill_on_drop(true);
    let said = again.output().await.unwrap();
    let text = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(said.status.success(), "{}", text.join("\n"));
    assert!(text[0].contains("1 passed"), "{}", text.join("\n"));
}

/// Addresses and name servers of the new namespaces.
fn furnish() {
    let on_lo = |address: &str| {
        let said = run("ip", &["address", "add", address, "dev", "lo"]);
        assert!(said.status.success(), "{address}: {said:?}");
    };
    assert!(run("ip", &["link", "set", "lo", "up"]).status.success());
    on_lo(&format!("{OUTSIDE}/32"));
    for ip in INNER
        .map(Ipv4Addr::from)
        .iter()
        .filter(|ip| !ip.is_loopback())
    {
        on_lo(&format!("{ip}/32"));
    }
    INNER_SIX.iter().for_each(|ip| on_lo(&format!("{ip}/128")));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "nameserver 127.0.0.1\noptions attempts:1\n").unwrap();
    let said = run(
        "mount",
        &["--bind", file.path().to_str().unwrap(), "/etc/resolv.conf"],
    );
    assert!(said.status.success(), "{said:?}");
}

/// What a name leads to, the first time and from then on.
fn leads_to(name: &str, times: usize) -> Vec<IpAddr> {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    match name {
        "good.test" => vec![ip(OUTSIDE)],
        "both.test" => vec![ip(OUTSIDE), ip("10.1.2.3")],
        "last.test" => vec![ip("127.0.0.1"), ip(OUTSIDE)],
        "flip.test" if times < 2 => vec![ip(OUTSIDE)],
        "flip.test" => vec![ip("10.1.2.3")],
        "flop.test" if times < 2 => vec![ip("10.1.2.3")],
        "flop.test" => vec![ip(OUTSIDE)],
        "meta.test" => vec![ip("169.254.169.254")],
        "mixed.test" => vec![ip(OUTSIDE), ip("fd00::5")],
        "six.test" => vec![ip("64:ff9b::a01:203")],
        "mapped.test" => vec![ip("::ffff:10.1.2.3")],
        "local.test" => vec![ip("127.0.0.1"), ip("::1")],
        _ => Vec::new(),
    }
}

/// Answers names by the script, with nothing to be remembered.
async fn answer_names() {
    let socket = UdpSocket::bind("127.0.0.1:53").await.unwrap();
    let mut times: HashMap<(String, u8), usize> = HashMap::new();
    let mut bytes = [0; 1500];
    loop {
        let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
        let asked = &bytes[..length];
        let (mut at, mut labels) = (12, Vec::new());
        while asked[at] > 0 {
            let end = at + 1 + usize::from(asked[at]);
            labels.push(String::from_utf8_lossy(&asked[at + 1..end]).to_lowercase());
            at = end;
        }
        let kind = asked[at + 2];
        let name = labels.join(".");
        let count = times.entry((name.clone(), kind)).or_default();
        let found: Vec<IpAddr> = leads_to(&name, *count)
            .into_iter()
            .filter(|ip| kind == if ip.is_ipv4() { 1 } else { 28 })
            .collect();
        *count += 1;
        let mut out = asked[..2].to_vec();
        out.extend_from_slice(&[
            0x81,
            0x80,
            0,
            1,
            0,
            u8::try_from(found.len()).unwrap(),
            0,
            0,
            0,
            0,
        ]);
        out.extend_from_slice(&asked[12..at + 5]);
        for ip in found {
            let data = match ip {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            out.extend_from_slice(&[
                0xc0,
                0x0c,
                0,
                kind,
                0,
                1,
                0,
                0,
                0,
                0,
                0,
                u8::try_from(data.len()).unwrap(),
            ]);
            out.extend_from_slice(&data);
        }
        socket.send_to(&out, from).await.unwrap();
    }
}

/// Every way to write an IPv4 address that some program understands.
fn spellings(ip: [u8; 4]) -> Vec<String> {
    let [a, b, c, d] = ip;
    let number = u32::from_be_bytes(ip);
    let (low, mid) = (u32::from(c) << 8 | u32::from(d), number & 0x00ff_ffff);
    let (high, rest) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let wide = |text: &str| -> String {
        let letter = |c: char| char::from_u32(u32::from(c) + 0xfee0).unwrap();
        text.chars()
            .map(|c| if c.is_ascii_digit() { letter(c) } else { c })
            .collect()
    };
    let dotted = format!("{a}.{b}.{c}.{d}");
    vec![
        dotted.clone(),
        format!("{dotted}."),
        number.to_string(),
        format!("0x{number:x}"),
        format!("0X{number:X}"),
        format!("0{number:o}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0x{a:x}.0{b:o}.{c}.{d}"),
        format!("{a}.{b}.{low}"),
        format!("{a}.{mid}"),
        format!("{a}.0x{mid:x}"),
        format!("000{a:o}.{b}.{c}.{d}"),
        wide(&dotted),
        dotted.replace('.', "\u{3002}"),
        dotted.replace('.', "%2e"),
        format!("[::ffff:{dotted}]"),
        format!("[::ffff:{high:x}:{rest:x}]"),
        format!("[::{dotted}]"),
        format!("[64:ff9b::{dotted}]"),
        format!("[64:ff9b:1::{high:x}:{rest:x}]"),
        format!("[2002:{high:x}:{rest:x}::1]"),
        format!("[::ffff:0:{dotted}]"),
        format!("[2001:0:{high:x}:{rest:x}::1]"),
        format!("good.test@{dotted}"),
        format!("{dotted}\\@good.test"),
        format!("{dotted}#@good.test"),
        format!("{dotted}?@good.test"),
    ]
}

fn vectors() -> Vec<String> {
    let mut hosts: Vec<String> = INNER.into_iter().flat_map(spellings).collect();
    // Neighbours of the first ones, which no listener has to itself.
    for ip in INNER {
        let [a, b, c, d] = ip;
        hosts.extend(spellings([a, b, c, d.wrapping_add(1)]));
        hosts.extend(spellings([a, b, c.wrapping_add(1), d]));
    }
    hosts.extend(INNER_SIX.iter().map(|ip| format!("[{ip}]")));
    hosts.extend(
        [
            "0.0.0.0",
            "0",
            "[::]",
            "[::1]",
            "localhost",
            "a.localhost",
            "224.0.0.1",
            "255.255.255.255",
        ]
        .map(str::to_owned),
    );
    hosts.extend(
        ["both", "last", "meta", "mixed", "six", "mapped", "local"]
            .map(|name| format!("{name}.test")),
    );
    let ways = |host: &String| {
        [
            format!("http://{host}/"),
            format!("https://{host}/x"),
            format!("http://{host}:443/"),
        ]
    };
    hosts.iter().flat_map(ways).collect()
}

async fn yard() {
    furnish();
    tokio::spawn(answer_names());
    let reached: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
    let all = Arc::new(vectors());
    for port in [80, 443] {
        // Whoever comes to the one open address is served; who comes to any other is only counted.
        let script = Arc::clone(&all);
        let outside = TcpListener::bind((OUTSIDE, port)).await.unwrap();
        let _ = Site::on(outside, move |asked| {
            match asked.path().strip_prefix("/to/") {
                Some(number) => redirect(&script[number.parse::<usize>().unwrap()]),
                None => html("<p>welcome</p>"),
            }
        });
        let mut inner: Vec<IpAddr> = INNER.map(|ip| Ipv4Addr::from(ip).into()).to_vec();
        inner.extend(INNER_SIX.iter().map(|ip| ip.parse::<IpAddr>().unwrap()));
        inner.push("::1".parse().unwrap());
        for ip in inner {
            let (listener, reached) = (
                TcpListener::bind((ip, port)).await.unwrap(),
                Arc::clone(&reached),
            );
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    reached.lock().unwrap().push(stream.local_addr().unwrap());
                }
            });
        }
    }
    // The walls can be reached: a counter that cannot count would prove nothing.
    tokio::net::TcpStream::connect("10.1.2.3:80").await.unwrap();
    while reached.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    reached.lock().unwrap().clear();

    let gate = gate(&format!(
        "{FLOOR_ONLY}web: {{ per_minute: 10000 }}\n{}",
        config(&[])
    ))
    .await;
    let client = client(&gate).await;
    let welcome = fetch(&client, json!({ "url": "http://good.test/" })).await;
    assert_eq!(welcome.text, "welcome", "{}", welcome.answer);
    let step = if std::env::var_os("PORTCULLIS_CAMPAIGN").is_some() {
        1
    } else {
        17
    };
    let mut tried = 0;
    for url in all.iter().step_by(step) {
        let got = fetch(&client, json!({ "url": url, "timeout_secs": 10 })).await;
        assert!(
            !got.text.contains("welcome") || url.contains("good.test"),
            "{url}: {}",
            got.answer
        );
        tried += 1;
    }
    for number in (0..all.len()).step_by(step * 7) {
        let url = format!("http://good.test/to/{number}");
        fetch(&client, json!({ "url": url, "timeout_secs": 10 })).await;
        tried += 1;
    }
    // A name that leads elsewhere the second time is looked up once for one request, and refused when it leads inside.
    for name in ["flip", "flop"].into_iter().cycle().take(20) {
        fetch(
            &client,
            json!({ "url": format!("http://{name}.test/"), "fresh": true }),
        )
        .await;
        tried += 1;
    }
    assert!(tried > 200, "{tried}");
    let reached = reached.lock().unwrap().clone();
    assert!(reached.is_empty(), "{tried} vectors reached {reached:?}");
    // And what may be reached still is.
    for number in 0..50 {
        let url = format!("http://good.test/{number}");
        let welcome = fetch(&client, json!({ "url": url })).await;
        assert_eq!(welcome.text, "welcome", "{}", welcome.answer);
    }
}
