//! Secret stores: where a `secret:` reference leads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    fields::Fields,
    finding::Finding,
    keys::{HOUR_MS, Key, Kind, key},
    resolve::path_at,
    server::check_url,
    tree::{Node, Value},
};

const METHODS: &[&str] = &["approle", "token", "kubernetes"];
/// Where Kubernetes puts the token of a pod's account.
const JWT_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

pub static SECRETS: &[Key] = &[key(
    "stores",
    Kind::Named(STORE, LISTED_STORE),
    "{}",
    "Stores that `secret:ENGINE/PATH#FIELD` leads to, by a name of yours; see docs/operate/secrets.md. A change holds after a restart.",
)];

pub static STORE: &[Key] = &[KIND, ADDRESS, ENGINES, NAMESPACE, AUTH, GRACE, WATCH];

pub static LISTED_STORE: &[Key] = &[
    key("name", Kind::Text, "", "The store's name."),
    KIND,
    ADDRESS,
    ENGINES,
    NAMESPACE,
    AUTH,
    GRACE,
    WATCH,
];

const KIND: Key = key(
    "kind",
    Kind::Choice(&["kv2"]),
    "kv2",
    "What is spoken to it: the second version of the KV engine, as OpenBao and Vault have it.",
);
const ADDRESS: Key = key(
    "address",
    Kind::Text,
    "",
    "Where it is, as in `https://bao.example.com:8200`. Plain `http://` only on loopback.",
);
const ENGINES: Key = key(
    "engines",
    Kind::TextList,
    "[]",
    "The mounts of it that references may name first. No two stores have the same one.",
);
const NAMESPACE: Key = key(
    "namespace",
    Kind::Text,
    "",
    "The namespace, if it has those.",
);
const AUTH: Key = key("auth", Kind::Table(STORE_AUTH), "", "How the gate logs in.");
const GRACE: Key = key(
    "grace",
    Kind::Duration(0..=24 * HOUR_MS),
    "15m",
    "How long a value that was read may be used to connect again while the store does not answer. `0s`: not at all.",
);
const WATCH: Key = key(
    "watch",
    Kind::Duration(1_000..=24 * HOUR_MS),
    "5m",
    "How often the secrets in use are looked at for a new version. Servers that use one are connected anew beside the old connection.",
);

pub static STORE_AUTH: &[Key] = &[
    key(
        "method",
        Kind::Choice(METHODS),
        "approle",
        "`approle` by a role and its secret id, `token` by a token, `kubernetes` by the token of the pod's account.",
    ),
    key(
        "mount",
        Kind::Text,
        "",
        "Where the method is mounted, if not under its own name.",
    ),
    key("role_id", Kind::Reference, "", "With `approle`."),
    key("secret_id", Kind::Reference, "", "With `approle`."),
    key("token", Kind::Reference, "", "With `token`."),
    key("role", Kind::Text, "", "With `kubernetes`."),
    key(
        "jwt_file",
        Kind::Text,
        JWT_FILE,
        "With `kubernetes`; read anew at each login.",
    ),
];

/// A store, as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSpec {
    pub name: String,
    pub address: String,
    pub engines: Vec<String>,
    pub namespace: Option<String>,
    pub auth: StoreAuth,
    pub grace: Duration,
    pub watch: Duration,
}

/// How the gate logs in. What is secret is a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAuth {
    Token(String),
    AppRole {
        mount: String,
        role_id: String,
        secret_id: String,
    },
    Kubernetes {
        mount: String,
        role: String,
        jwt_file: PathBuf,
    },
}

pub(super) fn stores(
    secrets: Fields<'_>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<StoreSpec> {
    let Some(node) = secrets.node("stores") else {
        return Vec::new();
    };
    let mut stores = Vec::new();
    let mut engines: BTreeMap<String, String> = BTreeMap::new();
    let named: Vec<(String, Fields<'_>, &Node)> = match &node.value {
        Value::List(items) => items
            .iter()
            .map(|item| {
                let name = item.get("name").and_then(Node::text).unwrap_or_default();
                (name.to_owned(), Fields::new(Some(item), LISTED_STORE), item)
            })
            .collect(),
        _ => node
            .entries()
            .unwrap_or_default()
            .iter()
            .map(|(key, node)| (key.name.clone(), Fields::new(Some(node), STORE), node))
            .collect(),
    };
    for (name, fields, node) in named {
        let mut wrong =
            |what: String, fix: &str| findings.push(Finding::error(node.place, what, fix));
        let address = fields.text("address").trim_end_matches('/').to_owned();
        let is_loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"]
            .iter()
            .any(|start| address.starts_with(start));
        match check_url(&address) {
            Err((what, fix)) => wrong(
                format!("the address of the secret store `{name}` {what}"),
                fix,
            ),
            Ok(()) if !address.starts_with("https://") && !is_loopback => wrong(
                format!("the secret store `{name}` would be spoken to in clear"),
                "write an `https://` address",
            ),
            Ok(()) => {}
        }
        let own = fields.texts("engines");
        if own.is_empty() {
            wrong(
                format!("the secret store `{name}` has no engine"),
                "write the mounts that references name first, as in `engines: [kv]`",
            );
        }
        for engine in &own {
            if let Some(other) = engines.insert(engine.clone(), name.clone()) {
                wrong(
                    format!("`{engine}` is an engine of the stores `{other}` and `{name}`"),
                    "keep it at one of the two",
                );
            }
        }
        let auth = auth(fields.table("auth"), &name, node, base, findings);
        stores.extend(auth.map(|auth| StoreSpec {
            address,
            engines: own,
            namespace: fields.written("namespace").map(str::to_owned),
            auth,
            grace: fields.duration("grace"),
            watch: fields.duration("watch"),
            name,
        }));
    }
    stores
}

fn auth(
    fields: Fields<'_>,
    store: &str,
    node: &Node,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Option<StoreAuth> {
    let method = fields.text("method");
    let mut needed = |name: &str| {
        let text = fields.text(name).to_owned();
        if text.is_empty() {
            let what = format!("the login at the secret store `{store}` lacks `{name}`");
            findings.push(Finding::error(
                node.place,
                what,
                format!("`auth: {{ method: {method} }}` needs it"),
            ));
        } else if text.starts_with("secret:") {
            let what =
                format!("`{name}` of the secret store `{store}` is in a secret store itself");
            findings.push(Finding::error(
                node.place,
                what,
                "use `env:NAME` or `keychain:name`",
            ));
        }
        text
    };
    let mount = match fields.text("mount") {
        "" => method,
        mount => mount.trim_matches('/'),
    };
    let mount = mount.to_owned();
    Some(match method {
        "token" => StoreAuth::Token(needed("token")),
        "kubernetes" => {
            let role = needed("role");
            let jwt_file = match fields.node("jwt_file") {
                Some(node) => path_at(node, base, findings)?,
                None => PathBuf::from(JWT_FILE),
            };
            StoreAuth::Kubernetes {
                mount,
                role,
                jwt_file,
            }
        }
        _ => StoreAuth::AppRole {
            mount,
            role_id: needed("role_id"),
            secret_id: needed("secret_id"),
        },
    })
}
