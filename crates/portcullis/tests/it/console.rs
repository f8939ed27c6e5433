//! The console from outside, as a browser without scripts uses it: who gets in, what pages tell, and what it takes to act.

use serde_json::{Value, json};
use testkit::client::{Client, Era};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::approvals::{Yard, id, is_refused, pay};
use crate::operator::told;
use crate::support::{new_token, records};

/// What came back for one request.
#[derive(Debug)]
struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The value of a hidden field.
    fn hidden(&self, name: &str) -> String {
        let begins = format!("name=\"{name}\" value=\"");
        let (_, rest) = self
            .body
            .split_once(&begins)
            .unwrap_or_else(|| panic!("no field {name} in {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }

    #[track_caller]
    fn has(&self, text: &str) -> &Self {
        assert!(self.body.contains(text), "no {text:?} in {}", self.body);
        self
    }
}

/// A browser without scripts.
struct Browser {
    port: u16,
    host: String,
    cookie: Option<String>,
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Browser {
    /// One that stands at the console of this gate and has not logged in.
    async fn at(yard: &Yard) -> Self {
        let given = told(&yard.gate, &["console", "--code"]).await;
        let place = given["url"]
            .as_str()
            .unwrap()
            .trim_start_matches("http://")
            .trim_end_matches('/');
        let (_, port) = place.split_once(':').unwrap();
        Self {
            port: port.parse().unwrap(),
            host: place.to_owned(),
            cookie: None,
        }
    }

    /// One that has logged in with this role.
    async fn logged_in(yard: &Yard, role: &str) -> Self {
        let mut browser = Self::at(yard).await;
        let reply = browser.log_in(&code(yard, role).await).await;
        assert_eq!(reply.status, 303, "{reply:?}");
        browser
    }

    async fn log_in(&mut self, code: &str) -> Page {
        let reply = self.post("/login", &[("code", code)]).await;
        if let Some(cookie) = reply.header("set-cookie") {
            for flag in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
                assert!(cookie.contains(flag), "{cookie}");
            }
            self.cookie = cookie.split(';').next().map(str::to_owned);
        }
        reply
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.host));
        }
        if let Some(cookie) = &self.cookie {
            request.push_str(&format!("Cookie: {cookie}\r\n"));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Page {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    async fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], "").await
    }

    /// What a browser says of a form on one of the console's own pages.
    fn own(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Origin", format!("http://{}", self.host)),
            ("Sec-Fetch-Site", "same-origin".to_owned()),
        ]
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.post_saying(path, fields, &self.own()).await
    }

    async fn post_saying(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        said: &[(&str, String)],
    ) -> Page {
        let body: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
            .collect();
        let mut headers = vec![("Content-Type", "application/x-www-form-urlencoded")];
        headers.extend(said.iter().map(|(name, value)| (*name, value.as_str())));
        self.send("POST", path, &headers, &body.join("&")).await
    }
}

async fn code(yard: &Yard, role: &str) -> String {
    let given = told(&yard.gate, &["console", "--code", "--role", role]).await;
    assert_eq!(given["role"], role);
    given["code"].as_str().unwrap().to_owned()
}

/// A call that waits for a person, and the id of its approval.
async fn waiting(yard: &Yard, name: &str) -> (testkit::client::Pending, String) {
    let token = yard.influenced(name).await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "mallory <b>\u{202e}");
    let waiting = yard.pending(1).await;
    (asking, id(&waiting[0]))
}

#[tokio::test]
async fn a_code_lets_one_person_in_once_and_pages_tell_what_happened() {
    let yard = Yard::open("").await;
    let mut browser = Browser::at(&yard).await;
    let locked = browser.get("/calls").await;
    assert_eq!(locked.status, 401);
    locked.has("portcullis console");
    let code = code(&yard, "operator").await;
    assert_eq!(browser.log_in("wrong-code").await.status, 403);
    assert_eq!(browser.log_in(&code).await.status, 303);
    let mut other = Browser::at(&yard).await;
    assert_eq!(other.log_in(&code).await.status, 403, "a code opens once");

    let (asking, approval) = waiting(&yard, "ann").await;
    let overview = browser.get("/").await;
    assert_eq!(overview.status, 200);
    overview
        .has("2 of 2 servers can be called")
        .has("1 call waits for a person")
        .has("(1) Overview");
    let policy = overview.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'"),
        "{policy}"
    );
    assert_eq!(overview.header("cache-control"), Some("no-store"));
    let shown = browser.get(&format!("/approvals/{approval}")).await;
    shown
        .has("bank")
        .has("pay")
        .has("mallory")
        .has("What the session has read");
    assert!(
        !shown.body.contains("<b>"),
        "markup of a caller: {}",
        shown.body
    );
    assert!(!shown.body.contains('\u{202e}'), "{}", shown.body);

    let denied = browser
        .post(
            &format!("/approvals/{approval}/answer"),
            &[
                ("form", &shown.hidden("form")),
                ("seen", &shown.hidden("seen")),
                ("reason", "not mallory"),
                ("code", &self::code(&yard, "operator").await),
                ("answer", "deny"),
            ],
        )
        .await;
    assert_eq!(denied.status, 200, "{denied:?}");
    denied.has("denied").has("not mallory");
    assert!(is_refused(&asking.answer().await.unwrap()));
    assert_eq!(yard.paid(), 0);

    let refused = browser.get("/calls?verdict=refused").await;
    refused.has("ann").has("bank").has("pay");
    let listed = records(&yard.gate).await;
    let call = listed
        .iter()
        .find(|record| record["verdict"] == "refused" && record["tool"] == "pay")
        .and_then(|record| record["call"].as_str())
        .unwrap_or_else(|| panic!("{listed:?}"));
    let story = browser.get(&format!("/calls/{call}")).await;
    story
        .has("Consent")
        .has("What may have influenced it")
        .has("news");
    let acts: Vec<&str> = listed
        .iter()
        .filter_map(|record| record["action"].as_str())
        .collect();
    assert!(acts.contains(&"console.login"), "{acts:?}");
    for path in [
        "/approvals",
        "/servers",
        "/servers/bank",
        "/servers/bank/review",
        "/sessions",
        "/policy",
        "/ledger",
        "/visits",
        "/settings",
        "/help",
        "/start",
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
    }
    let missing = browser.get("/calls/nothing-1").await;
    assert_eq!(missing.status, 404);
    missing.has("No record of this call");
    assert_eq!(browser.get("/nothing").await.status, 404);
}

/// Each of the four is taken away in turn, and nothing is done; with all of them it is.
#[tokio::test]
async fn each_proof_of_an_act_is_asked_for() {
    let yard = Yard::open("").await;
    let browser = Browser::logged_in(&yard, "approver").await;
    let stranger = Browser::logged_in(&yard, "approver").await;
    let (asking, approval) = waiting(&yard, "ann").await;
    let path = format!("/approvals/{approval}/answer");
    let shown = browser.get(&format!("/approvals/{approval}")).await;
    let foreign = stranger
        .get(&format!("/approvals/{approval}"))
        .await
        .hidden("form");
    let own = browser.own();
    let without = |name: &str| -> Vec<(&'static str, String)> {
        own.iter()
            .filter(|(key, _)| *key != name)
            .cloned()
            .collect()
    };
    let (form, seen) = (shown.hidden("form"), shown.hidden("seen"));
    let attempt =
        async |said: &[(&str, String)], form: &str, seen: &str, code: &str, read: &str| {
            let fields = [
                ("form", form),
                ("seen", seen),
                ("code", code),
                ("read", read),
                ("answer", "approve"),
            ];
            browser.post_saying(&path, &fields, said).await.status
        };
    let code = || code(&yard, "approver");
    let elsewhere = vec![
        ("Origin", "http://127.0.0.1:9".to_owned()),
        ("Sec-Fetch-Site", "same-origin".to_owned()),
    ];
    let same_site = vec![own[0].clone(), ("Sec-Fetch-Site", "same-site".to_owned())];
    assert_eq!(
        attempt(&without("Origin"), &form, &seen, &code().await, "yes").await,
        403
    );
    assert_eq!(
        attempt(&elsewhere, &form, &seen, &code().await, "yes").await,
        403
    );
    assert_eq!(
        attempt(
            &without("Sec-Fetch-Site"),
            &form,
            &seen,
            &code().await,
            "yes"
        )
        .await,
        403
    );
    assert_eq!(
        attempt(&same_site, &form, &seen, &code().await, "yes").await,
        403
    );
    assert_eq!(
        attempt(&own, "", &seen, &code().await, "yes").await,
        403,
        "no form of this visit"
    );
    assert_eq!(
        attempt(&own, &foreign, &seen, &code().await, "yes").await,
        403,
        "another visit's form"
    );
    assert_eq!(
        attempt(&own, &form, &seen, "", "yes").await,
        403,
        "neither signed nor confirmed"
    );
    assert_eq!(
        attempt(&own, &form, "0", &code().await, "yes").await,
        409,
        "not what was shown"
    );
    assert_eq!(
        attempt(&own, &form, &seen, &code().await, "").await,
        409,
        "not read"
    );
    assert_eq!(yard.paid(), 0, "nothing was done");
    assert_eq!(yard.pending(1).await.len(), 1);
    assert_eq!(attempt(&own, &form, &seen, &code().await, "yes").await, 200);
    assert!(!is_refused(&asking.answer().await.unwrap()));
    assert_eq!(yard.paid(), 1);
}

#[tokio::test]
async fn the_console_is_on_its_own_host_and_its_cookie_opens_nothing_else() {
    let yard = Yard::open("").await;
    let browser = Browser::logged_in(&yard, "operator").await;
    let plain = format!("127.0.0.1:{}", browser.port);
    // The cookie on another host, and a bearer on this one.
    let other = browser
        .send("GET", "/v1/admin/status", &[("Host", &plain)], "")
        .await;
    assert_eq!(other.status, 401, "{other:?}");
    let token = new_token(&yard.gate, "boss", &["--role", "operator"]).await;
    let bearer = format!("Bearer {token}");
    let nobody = Browser {
        cookie: None,
        port: browser.port,
        host: browser.host.clone(),
    };
    for path in ["/", "/calls", "/v1/admin/status", "/mcp"] {
        let page = nobody
            .send("GET", path, &[("Authorization", &bearer)], "")
            .await;
        assert_eq!(page.status, 401, "{path}: {page:?}");
    }
    for path in ["/mcp", "/v1/admin/status", "/v1/openapi.json", "/healthz"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    // Elsewhere there is a page that says where it is, and does not say its name.
    let welcome = browser.send("GET", "/", &[("Host", &plain)], "").await;
    assert_eq!(welcome.status, 200);
    welcome.has("portcullis console");
    assert!(!welcome.body.contains(".localhost"), "{welcome:?}");
    let wrong = format!("other.localhost:{}", browser.port);
    assert_eq!(
        browser
            .send("GET", "/", &[("Host", &wrong)], "")
            .await
            .status,
        403
    );
    // No code over HTTP, whatever the credential.
    let operator = yard.target(&token).at("/v1/admin/console/codes");
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let reply = operator
        .send("POST", &headers, b"{}".to_vec())
        .await
        .unwrap();
    let (status, said): (u16, Value) = (reply.status, reply.json().await.unwrap());
    assert_eq!((status, &said["code"]), (403, &json!("only_on_the_socket")));
}

#[tokio::test]
async fn a_viewer_looks_and_changes_nothing() {
    let yard = Yard::open("").await;
    let viewer = Browser::logged_in(&yard, "viewer").await;
    let (asking, approval) = waiting(&yard, "ann").await;
    let shown = viewer.get(&format!("/approvals/{approval}")).await;
    shown.has("mallory").has("Your role is viewer");
    assert!(!shown.body.contains("Approve</button>"));
    let form = shown.hidden("form");
    for (path, field, value) in [
        (format!("/approvals/{approval}/answer"), "answer", "approve"),
        ("/servers/bank/block".to_owned(), "reason", "x"),
        ("/servers/bank/classify".to_owned(), "level", "PUBLIC"),
        ("/servers/bank/retry".to_owned(), "x", "x"),
    ] {
        let digest = if path.starts_with("/approvals") {
            told(&yard.gate, &["approvals", "show", &approval]).await;
            "whatever"
        } else {
            ""
        };
        let code = code(&yard, "viewer").await;
        let fields = [
            ("form", form.as_str()),
            ("seen", digest),
            ("read", "yes"),
            ("code", &code),
            (field, value),
        ];
        let reply = viewer.post(&path, &fields).await;
        assert!(
            reply.status != 303 && !reply.body.contains("notice good"),
            "{path}: {reply:?}"
        );
    }
    assert_eq!(yard.paid(), 0);
    assert_eq!(yard.pending(1).await.len(), 1);
    drop(asking);
    let servers = told(&yard.gate, &["servers", "list"]).await;
    assert!(
        !servers.to_string().contains("\"trust\":\"BLOCKED\""),
        "{servers}"
    );
}

/// A page that listens is told of a call, and of the end of its visit.
#[tokio::test]
async fn a_live_page_is_told_of_calls_until_its_visit_ends() {
    let yard = Yard::open("").await;
    let browser = Browser::logged_in(&yard, "viewer").await;
    let mut stream = TcpStream::connect(("127.0.0.1", browser.port))
        .await
        .unwrap();
    let request = format!(
        "GET /feed?server=news HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
        browser.host,
        browser.cookie.as_deref().unwrap()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut told_so_far = String::new();
    let mut read_until = async |wanted: &str| {
        let mut piece = [0; 4096];
        while !told_so_far.contains(wanted) {
            let reading =
                tokio::time::timeout(std::time::Duration::from_secs(60), stream.read(&mut piece));
            let read = reading
                .await
                .unwrap_or_else(|_| panic!("{wanted:?} never came: {told_so_far}"))
                .unwrap();
            assert!(
                read > 0,
                "the stream ended without {wanted:?}: {told_so_far}"
            );
            told_so_far.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    };
    read_until("text/event-stream").await;
    yard.influenced("ann").await;
    read_until("news/say").await;
    let visits = told(&yard.gate, &["console", "--visits"]).await;
    let visit = visits[0]["id"].as_str().unwrap().to_owned();
    told(&yard.gate, &["console", "--end", &visit]).await;
    read_until("this visit has ended").await;
    assert_eq!(browser.get("/").await.status, 401);
}
