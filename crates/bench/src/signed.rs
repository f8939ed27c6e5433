//! The same load, signed: one session, attested once, and an envelope of its own for each call.
//!
//! Signing is the client's cost and happens here, outside of what is watched.

use std::{
    rc::Rc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use identity::AgentKey;
use serde_json::Value;
use tokio::task::LocalSet;
use wire::Json;

use super::{
    load::{Line, Measured, Plan, Tape, measure},
    template::{Address, Era, Template, call_body},
};

/// Who signs.
struct Signer {
    key: AgentKey,
    token: String,
}

/// Loads the SEAL door of the gate at this address.
pub async fn http(address: Address, context: &str, plan: Plan) -> Result<Measured> {
    // No handshake: an envelope says everything.
    let address = Address {
        era: Era::Modern,
        ..address
    };
    let signer = Rc::new(attest(&address, context).await?);
    let invoke = Address {
        path: "/v1/seal/invoke".to_owned(),
        bearer: None,
        ..address
    };
    let tape = Rc::new(Tape::default());
    let local = LocalSet::new();
    let mut connections = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        let (invoke, signer, tape, size) = (
            invoke.clone(),
            Rc::clone(&signer),
            Rc::clone(&tape),
            plan.size,
        );
        connections
            .push(local.spawn_local(async move { drive(&invoke, &signer, size, &tape).await }));
    }
    local
        .run_until(async move {
            let measured = measure(&tape, &plan).await;
            for connection in connections {
                connection.await.context("a connection's task died")??;
            }
            Ok(measured)
        })
        .await
}

async fn attest(address: &Address, context: &str) -> Result<Signer> {
    let key = AgentKey::from_seed(&[7; 32]).context("a key")?;
    let body =
        serde_json::json!({ "public_key": key.public().to_base64(), "security_context": context });
    let attest = Address {
        path: "/v1/seal/attest".to_owned(),
        ..address.clone()
    };
    let mut line = Line::open(&attest).await?;
    let reply = line
        .exchange(&attest.request("attest", None, body.to_string().as_bytes()))
        .await?;
    let said: Value = serde_json::from_slice(&reply.body)?;
    ensure!(reply.status == 200, "attest: {} {said}", reply.status);
    let token = said
        .get("security_token")
        .and_then(Value::as_str)
        .context("no token")?
        .to_owned();
    Ok(Signer { key, token })
}

async fn drive(invoke: &Address, signer: &Signer, size: usize, tape: &Tape) -> Result<()> {
    let mut line = Line::open(invoke).await?;
    let mut payload = Template::new(call_body(&invoke.tool, Era::Legacy, invoke.text, size));
    while !tape.stop.get() {
        let id = tape.id();
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        let envelope = signer.key.envelope(
            Json::checked_before(payload.stamped(id)),
            &signer.token,
            u64::try_from(now_ms)?,
        );
        let request = invoke.request("invoke", None, &envelope);
        let started = Instant::now();
        let reply = line.exchange(&request).await?;
        tape.record(started.elapsed());
        reply.answers(id)?;
        line.recycle(reply.body);
    }
    Ok(())
}
