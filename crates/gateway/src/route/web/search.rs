//! `web.search`: one engine after the other, until one answers. What an engine is asked is made here; what it answers is read by a
//! converter, in a process of its own.

use policy::context::Ceilings;
use vocab::Stop;
use wire::{Json, write::Object};

use super::{
    Ended, Errand, Request,
    asked::Search,
    told::{self, Hit},
};
use crate::{
    call::{Part, judge_part, record_part},
    settings::{Engine, EngineKind, Text},
};

pub(super) async fn run(errand: &Errand<'_>, asks: &Search) -> Result<Vec<u8>, Ended> {
    let mut tried = Vec::new();
    let mut refused = None;
    for engine in &errand.terms.engines {
        let name = engine.kind.as_str();
        if let Err(violation) = judge(errand, engine) {
            tried.push(format!("{name}: not for this caller"));
            refused.get_or_insert(violation);
            continue;
        }
        if !tried.is_empty() {
            let detail = format!("{}; {name} is asked", tried.join("; "));
            record_part(
                errand.case,
                errand.order.target(),
                "call.redirected",
                &detail,
            )?;
        }
        match ask(errand, asks, engine).await {
            Ok(Ok(hits)) => return Ok(told::hits(name, &hits)),
            Ok(Err(why)) => tried.push(format!("{name}: {why}")),
            // The time of the call is over, or nothing can be asked.
            Err(stop) => return Err(Ended::Stop(stop)),
        }
    }
    match refused.filter(|_| tried.iter().all(|one| one.ends_with("not for this caller"))) {
        Some(violation) => Err(violation.into()),
        None if tried.is_empty() => Err(Ended::Said(told::unreachable(
            "no search engine is configured",
        ))),
        None => {
            let says = format!("no search engine answered: {}", tried.join("; "));
            Err(Ended::Said(told::unreachable(&says)))
        }
    }
}

/// The lists of a security context bound the engine that is asked.
fn judge(errand: &Errand<'_>, engine: &Engine) -> Result<(), vocab::Violation> {
    let case = errand.case;
    let ceilings = Ceilings {
        search_host: engine.address.host().to_owned(),
        ..case.now.rules.contexts.ceilings().clone()
    };
    let part = Part {
        ceilings: Some(&ceilings),
    };
    let way = (errand.order.target(), errand.decide);
    judge_part(case, way, (errand.params(None), part), true)
}

/// The hits of one engine, or why it has none to give.
async fn ask(
    errand: &Errand<'_>,
    asks: &Search,
    engine: &Engine,
) -> Result<Result<Vec<Hit>, String>, Stop> {
    let key = match &engine.key {
        None => None,
        Some(Text::Literal(key)) => Some(key.clone()),
        Some(Text::Secret(reference)) => {
            let hub = &errand.case.gate.hub;
            match hub.secrets().reveal(reference).await {
                Ok(key) => {
                    hub.hold(key.expose());
                    Some(key.expose().clone())
                }
                Err(why) => {
                    tracing::warn!(why, "the key of a search engine cannot be read");
                    return Ok(Err("its key cannot be read".to_owned()));
                }
            }
        }
    };
    let request = request(engine, asks, key);
    let address = match engine.address.join(&request.path) {
        Ok(address) => address,
        Err(why) => return Ok(Err(why.to_owned())),
    };
    let opened = errand.open(Request {
        address: &address,
        headers: request.headers,
        form: request.form,
        is_own: engine.is_own,
    });
    let fetched = match opened.await {
        Ok(fetched) => fetched,
        Err(Ended::Said(trouble)) => {
            tracing::info!(
                ?trouble,
                engine = engine.kind.as_str(),
                "a search engine does not answer"
            );
            return Ok(Err("cannot be reached".to_owned()));
        }
        Err(Ended::Stop(Stop::Refused(violation))) => return Ok(Err(violation.public())),
        Err(Ended::Stop(stop)) => return Err(stop),
    };
    match fetched.status {
        200 => {}
        202 | 403 => return Ok(Err("takes us for a robot".to_owned())),
        status => return Ok(Err(format!("answered with status {status}"))),
    }
    let mut head = Object::new();
    head.str("mode", "hits")
        .str("type", &fetched.content_type)
        .str("engine", engine.kind.as_str())
        .u64("most", asks.most as u64);
    let programs = &errand.case.gate.web.programs;
    let said = match programs.convert(head, &fetched.body).await {
        Ok(said) => said,
        Err(why) => {
            tracing::warn!(why, "an engine's answer cannot be read");
            return Ok(Err("its answer cannot be read".to_owned()));
        }
    };
    let json = Json::checked_before(&said);
    Ok(
        match json.get("verdict").and_then(Json::as_str).as_deref() {
            Some("hits") => Ok(json
                .get("hits")
                .into_iter()
                .flat_map(Json::items)
                .map(hit)
                .take(asks.most)
                .collect()),
            Some("blocked") => Err("takes us for a robot".to_owned()),
            _ => Err("answers otherwise than it did".to_owned()),
        },
    )
}

fn hit(item: Json<'_>) -> Hit {
    let text = |key: &str| {
        let text = item.get(key).and_then(Json::as_str).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    Hit {
        title: text("title"),
        url: text("url"),
        snippet: text("snippet"),
    }
}

/// What an engine is asked.
struct Asking {
    /// Relative to its address.
    path: String,
    headers: Vec<(&'static str, String)>,
    form: Option<String>,
}

fn request(engine: &Engine, asks: &Search, key: Option<String>) -> Asking {
    let query = encoded(&asks.query);
    let json = ("accept", "application/json".to_owned());
    match engine.kind {
        EngineKind::DuckDuckGo => Asking {
            path: "html/".to_owned(),
            headers: vec![
                ("accept", "text/html".to_owned()),
                (
                    "content-type",
                    "application/x-www-form-urlencoded".to_owned(),
                ),
            ],
            form: Some(format!("q={query}&b=&kl=")),
        },
        EngineKind::SearXng => Asking {
            path: format!("search?q={query}&format=json"),
            headers: vec![json],
            form: None,
        },
        EngineKind::Brave => Asking {
            path: format!("res/v1/web/search?q={query}&count={}", asks.most),
            headers: key
                .map(|key| ("x-subscription-token", key))
                .into_iter()
                .chain([json])
                .collect(),
            form: None,
        },
    }
}

/// As forms encode it.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use policy::context::WebAddress;

    use super::*;

    #[test]
    fn every_engine_is_asked_in_its_own_way() {
        let asks = Search {
            query: "a b&c=d/\u{e4}#".to_owned(),
            most: 7,
        };
        let asked = |kind, address| {
            let engine = Engine {
                kind,
                address: WebAddress::parse(address).unwrap(),
                is_own: false,
                key: None,
            };
            let asking = request(&engine, &asks, Some("K".to_owned()));
            let at = engine.address.join(&asking.path).unwrap();
            (at.as_str().to_owned(), asking.form, asking.headers)
        };
        let (at, form, _) = asked(EngineKind::DuckDuckGo, "https://html.duckduckgo.com/");
        assert_eq!(at, "https://html.duckduckgo.com/html/");
        assert_eq!(form.unwrap(), "q=a+b%26c%3Dd%2F%C3%A4%23&b=&kl=");
        let (at, form, headers) = asked(EngineKind::SearXng, "http://search.example/x/");
        assert_eq!(
            at,
            "http://search.example/x/search?q=a+b%26c%3Dd%2F%C3%A4%23&format=json"
        );
        assert!(form.is_none() && headers.iter().all(|(_, value)| value != "K"));
        let (at, _, headers) = asked(EngineKind::Brave, "https://api.search.brave.com/");
        assert!(at.ends_with("/res/v1/web/search?q=a+b%26c%3Dd%2F%C3%A4%23&count=7"));
        assert!(headers.contains(&("x-subscription-token", "K".to_owned())));
    }
}
