//! `oauth`: whose access tokens are taken, and for which address. What could be read in two ways is refused: a provider without keys, or
//! one whose keys would come over the network in clear.

use std::path::Path;

use gateway::settings::{Issuer, OAuth, ProofDemand, ServerSpec};

use super::{
    fields::Fields,
    finding::{Finding, Place},
    keys,
    resolve::path_at,
    resolved::IssuerKeys,
    tree::Node,
};

pub(super) fn oauth(
    top: Fields<'_>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Option<OAuth<IssuerKeys>> {
    let node = top.node("oauth")?;
    let fields = top.table("oauth");
    if top.text("authentication") == "none" {
        let what = "`oauth` asks callers who they are, and `authentication: none` does not";
        findings.push(Finding::error(
            node.place,
            what,
            "remove `authentication: none`",
        ));
    }
    let resource = match fields.node("resource") {
        Some(written) => address(written, "oauth.resource", findings),
        None => {
            let fix = "add `resource:` with the address clients use, as in `https://gate.example.com/mcp`";
            findings.push(Finding::error(node.place, "`oauth` has no `resource`", fix));
            String::new()
        }
    };
    for scope in fields.items("scopes") {
        check_scope(scope, findings);
    }
    let issuers = issuers(node, fields, base, findings);
    let proofs = match fields.text("dpop") {
        "allowed" => ProofDemand::Allowed,
        "required" => ProofDemand::Required,
        _ => ProofDemand::Off,
    };
    Some(OAuth {
        resource,
        scopes: fields.texts("scopes"),
        proofs,
        issuers,
    })
}

/// A user's own account is found by the user's name and tenant, and each provider gives such names as it likes: with two of them, a
/// namesake at one would spend the account of the user at the other.
pub(super) fn namesakes(
    top: Fields<'_>,
    oauth: Option<&OAuth<IssuerKeys>>,
    servers: &[ServerSpec],
    findings: &mut Vec<Finding>,
) {
    let needs_own = |server: &&ServerSpec| {
        server.default_rule.requires_user_auth
            || server.rules.values().any(|rule| rule.requires_user_auth)
    };
    let (Some(oauth), Some(node), Some(server)) =
        (oauth, top.node("oauth"), servers.iter().find(needs_own))
    else {
        return;
    };
    if oauth.issuers.len() > 1 {
        let what = format!(
            "`oauth.issuers` names more than one issuer, and a tool of `{}` has `requires_user_auth`: a user of one issuer could use the account of a namesake at another",
            server.id
        );
        let fix = "keep one issuer, or remove `requires_user_auth`";
        findings.push(Finding::error(node.place, what, fix));
    }
}

fn issuers(
    node: &Node,
    fields: Fields<'_>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<Issuer<IssuerKeys>> {
    let mut issuers: Vec<Issuer<IssuerKeys>> = Vec::new();
    for item in fields.items("issuers") {
        let Some(read) = issuer(item, base, findings) else {
            continue;
        };
        if issuers.iter().any(|known| known.issuer == read.issuer) {
            findings.push(Finding::error(
                item.place,
                format!("the issuer `{}` is there twice", read.issuer),
                "remove one of the two",
            ));
        }
        issuers.push(read);
    }
    if fields.items("issuers").is_empty() {
        let fix = "add `issuers:` with an `issuer` and a `jwks_url`, or remove `oauth`";
        findings.push(Finding::error(node.place, "`oauth` names no issuer", fix));
    }
    issuers
}

fn issuer(item: &Node, base: &Path, findings: &mut Vec<Finding>) -> Option<Issuer<IssuerKeys>> {
    let fields = Fields::new(Some(item), keys::ISSUER);
    let Some(name) = fields.node("issuer") else {
        findings.push(Finding::error(
            item.place,
            "an issuer without `issuer`",
            "add `issuer:` as it stands in its tokens",
        ));
        return None;
    };
    if let Some(scope) = fields.node("operator_scope") {
        check_scope(scope, findings);
    }
    let text = |name| {
        fields
            .written(name)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    // Exactly as written: a slash at the end makes another issuer.
    address(name, "issuer", findings);
    Some(Issuer {
        issuer: name.text()?.to_owned(),
        keys: issuer_keys(item.place, fields, base, findings)?,
        audience: text("audience"),
        user_claim: text("user_claim"),
        tenant_claim: text("tenant_claim"),
        departments_claim: text("departments_claim"),
        operator_scope: text("operator_scope"),
    })
}

fn issuer_keys(
    place: Place,
    fields: Fields<'_>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Option<IssuerKeys> {
    match (fields.node("jwks_url"), fields.node("jwks_file")) {
        (Some(url), None) => Some(IssuerKeys::Url(address(url, "jwks_url", findings))),
        (None, Some(file)) => path_at(file, base, findings).map(IssuerKeys::File),
        (Some(_), Some(file)) => {
            findings.push(Finding::error(
                file.place,
                "an issuer has `jwks_url` and `jwks_file`",
                "keep one of the two",
            ));
            None
        }
        (None, None) => {
            let fix = "add `jwks_url:`; its discovery document (`/.well-known/openid-configuration`) calls it `jwks_uri`";
            findings.push(Finding::error(place, "an issuer without keys", fix));
            None
        }
    }
}

/// An address that nobody on the way can speak for: https, or this machine.
fn address(node: &Node, name: &str, findings: &mut Vec<Finding>) -> String {
    let text = node.text().unwrap_or_default();
    let host = |rest: &str| {
        rest.split(['/', '?', '#'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let local = |host: &str| {
        let bare = host
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
            .map_or(host, |(bare, _)| bare);
        let bare = bare.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost"
            || bare
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    };
    let safe = match (
        text.strip_prefix("https://").map(host),
        text.strip_prefix("http://").map(host),
    ) {
        (Some(host), _) => !host.is_empty() && !host.contains('@'),
        (None, Some(host)) => local(&host),
        (None, None) => false,
    };
    let plain = !text.contains(['#', ' ', '"', '\\'])
        && text.is_ascii()
        && (name == "jwks_url" || !text.contains('?'));
    if !safe || !plain {
        let what = format!("`{name}: {text}` is not an address that can be trusted");
        let fix = "write an `https://` address, or `http://` with a loopback host, without query and fragment";
        findings.push(Finding::error(node.place, what, fix));
    }
    text.to_owned()
}

/// RFC 6749 §3.3.
fn check_scope(node: &Node, findings: &mut Vec<Finding>) {
    let Some(text) = node.text() else { return };
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    if text.is_empty() || text.len() > 128 || !plain {
        let fix = "write one scope per item, without spaces, quotes and backslashes";
        findings.push(Finding::error(
            node.place,
            format!("`{text}` cannot be a scope"),
            fix,
        ));
    }
}
