//! Finding out which era a server speaks, and shaking hands with it.
//!
//! A modern server answers `server/discover`. Anything that is neither such an answer nor an error only a modern server gives means
//! legacy, and then `initialize` decides.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use tokio::time::timeout;
use wire::{
    Json,
    mcp::{Revision, code, meta},
    rpc,
    write::Object,
};

use super::{connection::Connection, incoming::known, link::Link, standing, terms::Peer};
use crate::failure::{Failure, Kind, clip};

/// A modern server may refuse the first try with a list of what it supports.
const PROBES: usize = 3;

/// What a probe showed.
#[derive(Debug)]
pub(crate) enum Probe {
    Modern(Peer),
    Legacy,
}

/// Asks `server/discover`. An error means that `initialize` would not work either.
pub(crate) async fn probe(conn: &Rc<Connection>, patience: Duration) -> Result<Probe, Failure> {
    conn.set_modern(true);
    for _ in 0..PROBES {
        let Ok(answer) = timeout(patience, conn.request("server/discover", None)).await else {
            break;
        };
        match answer {
            Ok(result) => match discovered(&result) {
                Some(peer) => return Ok(Probe::Modern(peer)),
                None => break,
            },
            Err(failure) if failure.code() == Some(code::UNSUPPORTED_PROTOCOL_VERSION) => {
                if !supports_modern(&failure) {
                    break;
                }
            }
            Err(failure) if failure.rpc.is_none() && is_final(&failure) => return Err(failure),
            Err(_) => break,
        }
    }
    conn.set_modern(false);
    Ok(Probe::Legacy)
}

/// Nothing we say next would change this.
fn is_final(failure: &Failure) -> bool {
    failure.unreachable
        || failure.kind == Kind::Refused
        || matches!(failure.status, Some(401 | 403))
}

fn supports_modern(failure: &Failure) -> bool {
    let Some(error) = failure.rpc.as_ref().map(known) else {
        return false;
    };
    error.path(&["data", "supported"]).is_some_and(names_modern)
}

fn names_modern(versions: Json<'_>) -> bool {
    versions
        .items()
        .any(|version| version.as_str().as_deref() == Some(Revision::MODERN.as_str()))
}

fn discovered(result: &Bytes) -> Option<Peer> {
    let json = known(result);
    if !json.get("supportedVersions").is_some_and(names_modern) {
        return None;
    }
    let cut = |json: Json<'_>| result.slice_ref(json.as_bytes());
    let info = json
        .path(&["_meta", meta::SERVER_INFO])
        .or_else(|| json.get("serverInfo"));
    Some(Peer {
        revision: Revision::MODERN,
        capabilities: object_or_empty(json.get("capabilities"), result),
        info: object_or_empty(info, result),
        instructions: json
            .get("instructions")
            .filter(|text| text.as_str().is_some())
            .map(cut),
    })
}

fn object_or_empty(json: Option<Json<'_>>, of: &Bytes) -> Bytes {
    json.filter(|json| json.is_object()).map_or_else(
        || Bytes::from_static(b"{}"),
        |json| of.slice_ref(json.as_bytes()),
    )
}

/// The legacy handshake, complete with `initialized` and the standing stream.
pub(crate) async fn initialize(conn: &Rc<Connection>) -> Result<(), Failure> {
    conn.set_modern(false);
    let params = opening(conn);
    let result = conn.request("initialize", Some(known(&params))).await?;
    let json = known(&result);
    let version = json
        .get("protocolVersion")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let revision = Revision::parse(&version)
        .filter(|revision| !revision.is_modern())
        .ok_or_else(|| {
            let named = if version.is_empty() {
                "none".to_owned()
            } else {
                format!("`{}`", clip(&version))
            };
            Failure::invalid(format!(
                "the server answered `initialize` with a protocol version we do not speak: {named}"
            ))
        })?;
    conn.introduce(Peer {
        revision,
        capabilities: object_or_empty(json.get("capabilities"), &result),
        info: object_or_empty(json.get("serverInfo"), &result),
        instructions: json
            .get("instructions")
            .filter(|text| text.as_str().is_some())
            .map(|text| result.slice_ref(text.as_bytes())),
    });
    conn.post(rpc::notification("notifications/initialized", None).into())
        .await?;
    if let Link::Http(link) = &conn.link {
        standing::open(conn, link).await;
    }
    Ok(())
}

/// The session was lost: shakes hands again. What the server offers may have changed with it.
pub(crate) async fn reopen(conn: &Rc<Connection>) -> Result<(), Failure> {
    initialize(conn).await?;
    // What is offered and who listens is a matter of the system's connection.
    if conn.is_users() {
        return Ok(());
    }
    for what in ["tools", "resources", "prompts"] {
        if conn.declares(&[what]) {
            conn.notice(&format!("notifications/{what}/list_changed"), None);
        }
    }
    let subscribed = conn.subscriptions.borrow().clone();
    for uri in subscribed {
        let mut params = Object::new();
        params.str("uri", &uri);
        let params: Bytes = params.finish().into();
        if let Err(failure) = conn
            .request("resources/subscribe", Some(known(&params)))
            .await
        {
            tracing::warn!(
                server = &*conn.server,
                "a subscription was lost with the session: {failure}"
            );
        }
    }
    Ok(())
}

fn opening(conn: &Connection) -> Bytes {
    let allow = conn.options.allow;
    let mut params = Object::new();
    params.str("protocolVersion", Revision::LATEST_LEGACY.as_str());
    params.object("capabilities", |capabilities| {
        if allow.elicitation {
            capabilities.raw("elicitation", br#"{"form":{},"url":{}}"#);
        }
        if allow.roots {
            capabilities.raw("roots", br#"{"listChanged":true}"#);
        }
        if allow.sampling {
            capabilities.raw("sampling", b"{}");
        }
    });
    params.raw("clientInfo", &conn.options.client);
    params.finish().into()
}
