//! Who may link what: read from manifests and from the dependency trees of the two programs.

use super::{
    Finding,
    tree::{Dependency, Tree},
};

/// The crates that may use each crate of the workspace, from the bottom up. A crate that is not here may not exist yet.
const MAY_USE: &[(&str, &[&str])] = &[
    ("vocab", &[]),
    ("api", &["vocab"]),
    ("wire", &["vocab"]),
    ("flow", &["vocab", "wire"]),
    ("shape", &["vocab", "wire"]),
    ("provenance", &["vocab", "wire"]),
    ("identity", &["vocab", "wire"]),
    ("policy", &["flow", "provenance", "shape", "vocab", "wire"]),
    ("audit", &["flow", "vocab", "wire"]),
    ("state", &["audit", "flow", "vocab"]),
    ("reports", &["api", "audit", "flow", "state", "vocab"]),
    ("secrets", &["flow", "vocab", "wire"]),
    ("resp", &["vocab"]),
    // What stands before HTTP: it knows addresses and certificates, and no caller.
    ("doors", &["resp", "vocab"]),
    ("oauth", &["secrets", "wire"]),
    ("imports", &["secrets", "vocab"]),
    ("sinks", &["audit", "secrets", "vocab"]),
    ("sandbox", &[]),
    ("storage", &["vocab"]),
    ("worker", &["sandbox", "vocab", "wire"]),
    ("executor", &["sandbox", "wire"]),
    (
        "callers",
        &[
            "api",
            "audit",
            "flow",
            "identity",
            "policy",
            "provenance",
            "secrets",
            "state",
            "vocab",
            "wire",
        ],
    ),
    (
        "upstreams",
        &[
            "api",
            "audit",
            "callers",
            "flow",
            "oauth",
            "policy",
            "provenance",
            "sandbox",
            "secrets",
            "shape",
            "state",
            "vocab",
            "wire",
        ],
    ),
    (
        "calls",
        &["audit", "callers", "policy", "upstreams", "vocab", "wire"],
    ),
    // The only crate that may use the three before it: they offer what doors and programs must not reach.
    (
        "gateway",
        &[
            "api",
            "audit",
            "callers",
            "calls",
            "flow",
            "identity",
            "policy",
            "provenance",
            "shape",
            "state",
            "storage",
            "upstreams",
            "vocab",
            "wire",
        ],
    ),
    ("console", &["api", "vocab"]),
    (
        "server",
        &["api", "console", "doors", "gateway", "vocab", "wire"],
    ),
    ("nfs", &["gateway"]),
    (
        "config",
        &[
            "api", "audit", "doors", "gateway", "identity", "policy", "secrets", "sinks", "vocab",
            "wire",
        ],
    ),
    (
        "home",
        &[
            "api", "audit", "config", "gateway", "identity", "oauth", "policy", "reports",
            "secrets", "shape", "sinks", "state", "vocab", "wire",
        ],
    ),
    ("terminal", &["api", "vocab"]),
    (
        "commands",
        &[
            "api", "audit", "config", "gateway", "home", "identity", "imports", "oauth", "policy",
            "reports", "sandbox", "secrets", "server", "shape", "sinks", "terminal", "vocab",
            "wire",
        ],
    ),
    (
        "portcullis",
        &[
            "api", "audit", "commands", "config", "doors", "gateway", "home", "identity", "nfs",
            "reports", "sandbox", "secrets", "server", "shape", "sinks", "state", "terminal",
            "vocab", "wire",
        ],
    ),
    ("testkit", &["identity", "shape", "wire"]),
    (
        "bench",
        &[
            "flow",
            "identity",
            "policy",
            "provenance",
            "shape",
            "testkit",
            "vocab",
            "wire",
        ],
    ),
    ("fuzzing", &["identity", "oauth", "vocab", "wire"]),
    ("xtask", &["vocab", "wire"]),
];

/// Never shipped, so not held to the fences.
const DEVELOPMENT: [&str; 4] = ["testkit", "bench", "fuzzing", "xtask"];

/// A dependency (`*` at the end matches any rest), optionally only with one of some features, and the crates that may name it.
struct Fence {
    package: &'static str,
    features: &'static [&'static str],
    owners: &'static [&'static str],
}

const FENCES: &[Fence] = &[
    Fence {
        package: "rustls",
        features: &[],
        owners: &["doors", "worker"],
    },
    Fence {
        package: "tokio-rustls",
        features: &[],
        owners: &["doors", "worker"],
    },
    Fence {
        package: "webpki",
        features: &[],
        owners: &["doors"],
    },
    Fence {
        package: "resp",
        features: &[],
        owners: &["doors"],
    },
    Fence {
        package: "cedar*",
        features: &[],
        owners: &["policy"],
    },
    Fence {
        package: "sqlx*",
        features: &[],
        owners: &["state"],
    },
    Fence {
        package: "curve25519*",
        features: &[],
        owners: &["identity"],
    },
    Fence {
        package: "jsonschema",
        features: &[],
        owners: &["shape"],
    },
    Fence {
        package: "reqwest",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "ureq",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "hyper-rustls",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "hickory*",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "webpki-roots",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "rustls-native-certs",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "hyper",
        features: &["client"],
        owners: &["worker"],
    },
    Fence {
        package: "hyper-util",
        features: &["client", "client-legacy", "client-pool", "client-proxy"],
        owners: &["worker"],
    },
    Fence {
        package: "hyper",
        features: &["server"],
        owners: &["server"],
    },
    Fence {
        package: "hyper-util",
        features: &["server", "server-auto", "server-graceful"],
        owners: &["server"],
    },
    Fence {
        package: "axum*",
        features: &[],
        owners: &["server"],
    },
    Fence {
        package: "seccompiler",
        features: &[],
        owners: &["sandbox"],
    },
    Fence {
        package: "landlock",
        features: &[],
        owners: &["sandbox"],
    },
    Fence {
        package: "libc",
        features: &[],
        owners: &["sandbox"],
    },
    Fence {
        package: "async-nats",
        features: &[],
        owners: &["sinks"],
    },
    Fence {
        package: "clap*",
        features: &[],
        owners: &["portcullis", "commands", "terminal"],
    },
    Fence {
        package: "saphyr*",
        features: &[],
        owners: &["config"],
    },
    Fence {
        package: "toml_edit",
        features: &[],
        owners: &["imports"],
    },
    Fence {
        package: "grep-*",
        features: &[],
        owners: &["storage"],
    },
    Fence {
        package: "ignore",
        features: &[],
        owners: &["storage"],
    },
    Fence {
        package: "html-to-markdown-rs",
        features: &[],
        owners: &["worker"],
    },
    Fence {
        package: "globset",
        features: &[],
        owners: &["storage"],
    },
    Fence {
        package: "rmcp*",
        features: &[],
        owners: &[],
    },
    // It allocates what a length only claims.
    Fence {
        package: "nfs3_*",
        features: &[],
        owners: &[],
    },
];

/// What must not be found anywhere below the worker.
const NOT_IN_WORKER: &[&str] = &[
    "api",
    "reports",
    "policy",
    "shape",
    "state",
    "storage",
    "audit",
    "secrets",
    "sinks",
    "resp",
    "doors",
    "config",
    "async-nats",
    "callers",
    "upstreams",
    "calls",
    "gateway",
    "server",
    "console",
    "flow",
    "provenance",
    "identity",
    "home",
    "terminal",
    "commands",
    "oauth",
    "portcullis",
    "cedar*",
    "sqlx*",
    "rusqlite",
    "libsqlite3*",
    "curve25519*",
    "ed25519*",
    "jsonwebtoken",
];

/// Nor below the executor, which is mounted into containers that others made, and small.
const NOT_IN_EXECUTOR: &[&str] = &["worker", "tokio", "hyper*", "rustls*", "ring", "clap*"];

/// What must not be found anywhere below the gate.
const NOT_IN_GATE: &[&str] = &[
    "worker",
    "reqwest",
    "ureq",
    "hyper-rustls",
    "hickory*",
    "rmcp*",
    "testkit",
    "bench",
    "fuzzing",
];

pub(crate) fn worker_tree(tree: &Tree) -> Vec<Finding> {
    let mut found = banned(tree, "worker", NOT_IN_WORKER);
    found.extend(featured(tree, "worker", "hyper", "server"));
    found.extend(banned(tree, "executor", NOT_IN_WORKER));
    found.extend(banned(tree, "executor", NOT_IN_EXECUTOR));
    found
}

pub(crate) fn gate_tree(tree: &Tree) -> Vec<Finding> {
    let mut found = banned(tree, "portcullis", NOT_IN_GATE);
    found.extend(featured(tree, "portcullis", "hyper", "client"));
    found.extend(featured(tree, "portcullis", "hyper-util", "client"));
    found
}

fn banned(tree: &Tree, program: &str, packages: &[&str]) -> Vec<Finding> {
    let linked = tree.linked.get(program).into_iter().flatten();
    linked
        .filter(|linked| {
            packages
                .iter()
                .any(|package| matches(package, &linked.name))
        })
        .map(|linked| {
            let name = &linked.name;
            Finding::new(
                manifest(program),
                format!(
                    "`{program}` links `{name}`; see `cargo tree -p {program} -e normal -i {name}`"
                ),
            )
        })
        .collect()
}

fn featured(tree: &Tree, program: &str, package: &str, feature: &str) -> Option<Finding> {
    let mut linked = tree.linked.get(program)?.iter();
    let has =
        linked.any(|linked| linked.name == package && linked.features.iter().any(|f| f == feature));
    has.then(|| {
        Finding::new(
            manifest(program),
            format!("`{program}` links `{package}` with its `{feature}` feature"),
        )
    })
}

pub(crate) fn fences(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, member) in tree
        .members
        .iter()
        .filter(|(name, _)| !DEVELOPMENT.contains(&name.as_str()))
    {
        for dependency in member
            .dependencies
            .iter()
            .filter(|dependency| !dependency.dev)
        {
            for fence in FENCES.iter().filter(|fence| fence.stops(dependency)) {
                if !fence.owners.contains(&name.as_str()) {
                    found.push(Finding::new(
                        manifest(name),
                        fence.complaint(name, dependency),
                    ));
                }
            }
        }
    }
    found
}

impl Fence {
    fn stops(&self, dependency: &Dependency) -> bool {
        let featured = self.features.is_empty()
            || dependency
                .features
                .iter()
                .any(|f| self.features.contains(&f.as_str()));
        featured && matches(self.package, &dependency.name)
    }

    fn complaint(&self, name: &str, dependency: &Dependency) -> String {
        let what = match self.features {
            [] => format!("`{}`", dependency.name),
            features => format!("`{}` with {}", dependency.name, features.join("/")),
        };
        match self.owners {
            [] => format!("`{name}` depends on {what}, which is for tests only"),
            owners => format!(
                "`{name}` depends on {what}, which belongs to {}",
                owners.join(", ")
            ),
        }
    }
}

pub(crate) fn direction(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, member) in &tree.members {
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            found.push(Finding::new(
                manifest(name),
                format!("`{name}` has no row in the table of directions (xtask, tidy/links.rs)"),
            ));
            continue;
        };
        let wrong = member.dependencies.iter().filter(|dependency| {
            !dependency.dev
                && tree.members.contains_key(&dependency.name)
                && !may_use.contains(&dependency.name.as_str())
        });
        found.extend(wrong.map(|dependency| {
            Finding::new(
                manifest(name),
                format!("`{name}` may not depend on `{}`", dependency.name),
            )
        }));
    }
    found
}

fn manifest(name: &str) -> String {
    format!("crates/{name}/Cargo.toml")
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |prefix| name.starts_with(prefix))
}
