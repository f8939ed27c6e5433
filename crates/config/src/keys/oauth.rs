//! The keys of identity providers.

use super::{Key, Kind, key};

const PROOFS: &[&str] = &["off", "allowed", "required"];

pub static OAUTH: &[Key] = &[
    key(
        "resource",
        Kind::Text,
        "",
        "The address under which clients know this gate, as in `https://gate.example.com/mcp`: what an access token must be issued for. \
         Its host is accepted in `Host`. Without a path it stands for every path of the door.",
    ),
    key(
        "scopes",
        Kind::TextList,
        "[]",
        "Scopes that every access token must have. A token that lacks one is told which.",
    ),
    key(
        "dpop",
        Kind::Choice(PROOFS),
        "off",
        "Whether access tokens may be bound to a key of the client (`allowed`), must be (`required`), or are refused if they are (`off`). A \
         bound token is worth nothing without a proof, and no proof counts twice.",
    ),
    key(
        "issuers",
        Kind::TableList(ISSUER),
        "[]",
        "The identity providers whose access tokens are taken.",
    ),
];

pub static ISSUER: &[Key] = &[
    key(
        "issuer",
        Kind::Text,
        "",
        "What stands in `iss` of its tokens, exactly. Clients find its endpoints from it.",
    ),
    key(
        "jwks_url",
        Kind::Text,
        "",
        "Where its keys are. The worker fetches them, every few minutes and when a token names a new one; while the provider is away, the \
         last ones are used for up to six hours.",
    ),
    key(
        "jwks_file",
        Kind::Text,
        "",
        "A file with its keys, instead of `jwks_url`; read at start and on `reload`. A relative path starts at the directory of this file.",
    ),
    key(
        "audience",
        Kind::Text,
        "",
        "What must stand in `aud` of its tokens, where that is not `resource`.",
    ),
    key(
        "user_claim",
        Kind::Text,
        "",
        "The claim that names the user. Without it, the subject (`sub`) does.",
    ),
    key(
        "tenant_claim",
        Kind::Text,
        "",
        "The claim that names the tenant. A token without it is then refused.",
    ),
    key(
        "departments_claim",
        Kind::Text,
        "",
        "The claim that lists the user's departments, such as `groups`.",
    ),
    key(
        "operator_scope",
        Kind::Text,
        "",
        "The scope that makes its holder an operator. Without it nobody of this provider is one.",
    ),
];
