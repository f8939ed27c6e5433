//! What well-known secrets look like.
//!
//! Each shape has a few literals, one of which is in every secret of that shape: they are looked for first, over the raw bytes and at
//! the speed of memory, and only where one stands is looked more closely, by a function of [`Place`]. The pattern beside it says the
//! same as a regular expression; a pattern with a group named `secret` redacts only that group. The program does not run these
//! patterns, because a text can be made on which they are slow; the tests do, and compare. The search is fastest with literals of four
//! bytes or more.

use super::place::{ALNUM, Class, Hit, Place, WEB, WORD};

/// One well-known kind of secret.
#[derive(Debug, Clone, Copy)]
pub struct SecretShape {
    /// What the redaction says: `[redacted: NAME]`.
    pub name: &'static str,
    pub literals: &'static [&'static str],
    pub pattern: &'static str,
    /// Whether a literal is followed by at least [`RUN`] characters of a token, whatever else the pattern asks for.
    pub(super) runs_on: bool,
    /// Whether a secret stands around one of the literals.
    pub(super) look: Look,
}

/// What says whether a secret stands around a literal.
pub(super) type Look = fn(&mut Place<'_>) -> Option<Hit>;

const HEX: Class = Class::of("A-Fa-f0-9");
const BASE64: Class = Class::of("A-Za-z0-9+/=");

/// Characters of a token after a literal that tell a secret from a mere mention of what secrets begin with.
pub(super) const RUN: usize = 16;

/// A secret that goes on after its literal without a break.
const fn shape(
    name: &'static str,
    literals: &'static [&'static str],
    pattern: &'static str,
    look: Look,
) -> SecretShape {
    SecretShape {
        name,
        literals,
        pattern,
        runs_on: true,
        look,
    }
}

/// A secret that does not.
const fn loose(
    name: &'static str,
    literals: &'static [&'static str],
    pattern: &'static str,
    look: Look,
) -> SecretShape {
    SecretShape {
        name,
        literals,
        pattern,
        runs_on: false,
        look,
    }
}

/// Every shape we know, most specific first: where two overlap, the first names what was found.
pub const SHAPES: &[SecretShape] = &[
    loose(
        "private-key",
        &["-----BEGIN "],
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*-----|\z)",
        |place| place.private_key(),
    ),
    shape(
        "portcullis-token",
        &["pct_"],
        r"\bpct_[A-Za-z0-9]{22,128}",
        |place| place.token(ALNUM, 22, 128),
    ),
    shape(
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"\bgh[pousr]_[A-Za-z0-9]{36,255}",
        |place| place.token(ALNUM, 36, 255),
    ),
    shape(
        "github-token",
        &["github_pat_"],
        r"\bgithub_pat_[A-Za-z0-9_]{60,255}",
        |place| place.token(WORD, 60, 255),
    ),
    shape(
        "gitlab-token",
        &["glpat-", "gldt-", "glrt-", "glptt-"],
        r"\bgl(?:pat|dt|rt|ptt)-[A-Za-z0-9_.-]{20,}",
        |place| place.token(Class::of("A-Za-z0-9_.-"), 20, usize::MAX),
    ),
    shape(
        "slack-token",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe", "xapp-"],
        r"\bx(?:ox[bpars]|oxe(?:\.xox[bp])?|app)-[A-Za-z0-9-]{20,}",
        |place| place.slack(),
    ),
    shape(
        "slack-webhook",
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows)/(?<secret>[A-Za-z0-9_/-]{24,})",
        |place| place.slack_webhook(),
    ),
    shape(
        "aws-access-key",
        &["AKIA", "ASIA"],
        r"\bA(?:KIA|SIA)[A-Z2-7]{16}\b",
        |place| place.word(Class::of("A-Z2-7"), 16),
    ),
    loose(
        "aws-secret-key",
        &[
            "aws_secret_access_key",
            "AWS_SECRET_ACCESS_KEY",
            "SecretAccessKey",
            "secretAccessKey",
        ],
        r#"(?i)secret_?access_?key["'\s:=]{1,6}(?<secret>[A-Za-z0-9/+]{40})\b"#,
        |place| place.aws_secret(),
    ),
    shape(
        "google-api-key",
        &["AIza"],
        r"\bAIza[A-Za-z0-9_-]{35}",
        |place| place.token(WEB, 35, 35),
    ),
    shape(
        "google-oauth-token",
        &["ya29."],
        r"\bya29\.[A-Za-z0-9_-]{20,}",
        |place| place.token(WEB, 20, usize::MAX),
    ),
    shape(
        "google-client-secret",
        &["GOCSPX-"],
        r"\bGOCSPX-[A-Za-z0-9_-]{28}",
        |place| place.token(WEB, 28, 28),
    ),
    shape(
        "anthropic-key",
        &["sk-ant-"],
        r"\bsk-ant-[A-Za-z0-9_-]{24,}",
        |place| place.token(WEB, 24, usize::MAX),
    ),
    shape(
        "openai-key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"],
        r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{32,}",
        |place| place.token(WEB, 32, usize::MAX),
    ),
    shape(
        "openai-key",
        &["T3BlbkFJ"],
        r"\bsk-[A-Za-z0-9]{16,}T3BlbkFJ[A-Za-z0-9]{16,}",
        |place| place.openai(),
    ),
    shape(
        "stripe-key",
        &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"],
        r"\b(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{20,}",
        |place| place.token(BASE64, 20, usize::MAX),
    ),
    shape("npm-token", &["npm_"], r"\bnpm_[A-Za-z0-9]{36}", |place| {
        place.token(ALNUM, 36, 36)
    }),
    shape(
        "pypi-token",
        &["pypi-AgE"],
        r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
        |place| place.token(WEB, 50, usize::MAX),
    ),
    shape(
        "docker-token",
        &["dckr_pat_", "dckr_oat_"],
        r"\bdckr_[po]at_[A-Za-z0-9_-]{27,}",
        |place| place.token(WEB, 27, usize::MAX),
    ),
    shape(
        "huggingface-token",
        &["hf_"],
        r"\bhf_[A-Za-z0-9]{34,}",
        |place| place.token(ALNUM, 34, usize::MAX),
    ),
    shape(
        "digitalocean-token",
        &["dop_v1_", "doo_v1_", "dor_v1_"],
        r"\bdo[por]_v1_[a-f0-9]{64}",
        |place| place.token(Class::of("a-f0-9"), 64, 64),
    ),
    shape(
        "sendgrid-key",
        &["SG."],
        r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
        |place| place.pair((WEB, 22), ".", (WEB, 43)),
    ),
    shape(
        "twilio-key",
        &[
            "SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb",
            "SKc", "SKd", "SKe", "SKf",
        ],
        r"\bSK[a-f0-9]{32}\b",
        |place| place.twilio(),
    ),
    shape(
        "shopify-token",
        &["shpat_", "shpss_", "shpca_", "shppa_"],
        r"\bshp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32}",
        |place| place.token(HEX, 32, 32),
    ),
    shape(
        "vault-token",
        &["hvs.", "hvb.", "hvr."],
        r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}",
        |place| place.token(WEB, 24, usize::MAX),
    ),
    shape(
        "age-key",
        &["AGE-SECRET-KEY-1"],
        r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}",
        |place| place.token(Class::of("A-Z0-9"), 58, 58),
    ),
    shape(
        "linear-key",
        &["lin_api_"],
        r"\blin_api_[A-Za-z0-9]{40}",
        |place| place.token(ALNUM, 40, 40),
    ),
    shape(
        "notion-token",
        &["ntn_"],
        r"\bntn_[A-Za-z0-9]{40,}",
        |place| place.token(ALNUM, 40, usize::MAX),
    ),
    shape(
        "notion-token",
        &["secret_"],
        r"\bsecret_[A-Za-z0-9]{43}\b",
        |place| place.word(ALNUM, 43),
    ),
    shape(
        "grafana-token",
        &["glsa_"],
        r"\bglsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",
        |place| place.pair((ALNUM, 32), "_", (HEX, 8)),
    ),
    shape(
        "grafana-token",
        &["glc_"],
        r"\bglc_[A-Za-z0-9+/=]{32,}",
        |place| place.token(BASE64, 32, usize::MAX),
    ),
    shape(
        "tailscale-key",
        &["tskey-"],
        r"\btskey-[a-z]+-[A-Za-z0-9-]{20,}",
        |place| place.tailscale(),
    ),
    shape(
        "telegram-token",
        &[":AA"],
        r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
        |place| place.telegram(),
    ),
    shape(
        "azure-key",
        &["AccountKey=", "SharedAccessKey="],
        r"(?:AccountKey|SharedAccessKey)=(?<secret>[A-Za-z0-9+/]{40,}={0,2})",
        |place| place.azure_key(),
    ),
    shape(
        "azure-signature",
        &["sig="],
        r"[?&]sig=(?<secret>[A-Za-z0-9%+/]{40,}(?:%3[dD]|=){0,2})",
        |place| place.azure_signature(),
    ),
    shape(
        "azure-client-secret",
        &["8Q~"],
        r"\b[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}",
        |place| place.azure_secret(),
    ),
    shape(
        "jwt",
        &["eyJ"],
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}",
        |place| place.jwt(),
    ),
    loose(
        "url-password",
        &["://"],
        r#"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@?#"'<>\[\]{}()]{0,128}:(?<secret>[^\s/@?#"'<>\[\]{}()]{3,256})@[A-Za-z0-9\[]"#,
        |place| place.url_password(),
    ),
];
