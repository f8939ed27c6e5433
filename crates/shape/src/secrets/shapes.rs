//! What well-known secrets look like.
//!
//! Each shape has a few literals, one of which is in every secret of that shape: they are looked for first, over the raw bytes and at
//! the speed of memory, and only where one stands is the pattern tried. The search is fastest with literals of four bytes or more.
//! A pattern with a group named `secret` redacts only that group.

/// One well-known kind of secret.
#[derive(Debug, Clone, Copy)]
pub struct SecretShape {
    /// What the redaction says: `[redacted: NAME]`.
    pub name: &'static str,
    pub literals: &'static [&'static str],
    pub pattern: &'static str,
    /// Whether a literal is followed by at least [`RUN`] characters of a token, whatever else the pattern asks for.
    pub(super) runs_on: bool,
}

/// Characters of a token after a literal that tell a secret from a mere mention of what secrets begin with.
pub(super) const RUN: usize = 16;

/// A secret that goes on after its literal without a break.
const fn shape(name: &'static str, literals: &'static [&'static str], pattern: &'static str) -> SecretShape {
    SecretShape { name, literals, pattern, runs_on: true }
}

/// A secret that does not.
const fn loose(name: &'static str, literals: &'static [&'static str], pattern: &'static str) -> SecretShape {
    SecretShape { name, literals, pattern, runs_on: false }
}

/// Every shape we know, most specific first: where two overlap, the first names what was found.
pub const SHAPES: &[SecretShape] = &[
    loose(
        "private-key",
        &["-----BEGIN "],
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*-----|\z)",
    ),
    shape("portcullis-token", &["pct_"], r"\bpct_[A-Za-z0-9]{22,128}"),
    shape("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"\bgh[pousr]_[A-Za-z0-9]{36,255}"),
    shape("github-token", &["github_pat_"], r"\bgithub_pat_[A-Za-z0-9_]{60,255}"),
    shape("gitlab-token", &["glpat-", "gldt-", "glrt-", "glptt-"], r"\bgl(?:pat|dt|rt|ptt)-[A-Za-z0-9_.-]{20,}"),
    shape(
        "slack-token",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe", "xapp-"],
        r"\bx(?:ox[bpars]|oxe(?:\.xox[bp])?|app)-[A-Za-z0-9-]{20,}",
    ),
    shape("slack-webhook", &["hooks.slack.com/"], r"hooks\.slack\.com/(?:services|workflows)/(?<secret>[A-Za-z0-9_/-]{24,})"),
    shape("aws-access-key", &["AKIA", "ASIA"], r"\bA(?:KIA|SIA)[A-Z2-7]{16}\b"),
    loose(
        "aws-secret-key",
        &["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"],
        r#"(?i)secret_?access_?key["'\s:=]{1,6}(?<secret>[A-Za-z0-9/+]{40})\b"#,
    ),
    shape("google-api-key", &["AIza"], r"\bAIza[A-Za-z0-9_-]{35}"),
    shape("google-oauth-token", &["ya29."], r"\bya29\.[A-Za-z0-9_-]{20,}"),
    shape("google-client-secret", &["GOCSPX-"], r"\bGOCSPX-[A-Za-z0-9_-]{28}"),
    shape("anthropic-key", &["sk-ant-"], r"\bsk-ant-[A-Za-z0-9_-]{24,}"),
    shape(
        "openai-key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"],
        r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{32,}",
    ),
    shape("openai-key", &["T3BlbkFJ"], r"\bsk-[A-Za-z0-9]{16,}T3BlbkFJ[A-Za-z0-9]{16,}"),
    shape(
        "stripe-key",
        &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"],
        r"\b(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{20,}",
    ),
    shape("npm-token", &["npm_"], r"\bnpm_[A-Za-z0-9]{36}"),
    shape("pypi-token", &["pypi-AgE"], r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    shape("docker-token", &["dckr_pat_", "dckr_oat_"], r"\bdckr_[po]at_[A-Za-z0-9_-]{27,}"),
    shape("huggingface-token", &["hf_"], r"\bhf_[A-Za-z0-9]{34,}"),
    shape("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], r"\bdo[por]_v1_[a-f0-9]{64}"),
    shape("sendgrid-key", &["SG."], r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    shape(
        "twilio-key",
        &["SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb", "SKc", "SKd", "SKe", "SKf"],
        r"\bSK[a-f0-9]{32}\b",
    ),
    shape("shopify-token", &["shpat_", "shpss_", "shpca_", "shppa_"], r"\bshp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32}"),
    shape("vault-token", &["hvs.", "hvb.", "hvr."], r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    shape("age-key", &["AGE-SECRET-KEY-1"], r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
    shape("linear-key", &["lin_api_"], r"\blin_api_[A-Za-z0-9]{40}"),
    shape("notion-token", &["ntn_", "secret_"], r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}\b)"),
    shape("grafana-token", &["glsa_", "glc_"], r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/=]{32,})"),
    shape("tailscale-key", &["tskey-"], r"\btskey-[a-z]+-[A-Za-z0-9-]{20,}"),
    shape("telegram-token", &[":AA"], r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    shape(
        "azure-key",
        &["AccountKey=", "SharedAccessKey="],
        r"(?:AccountKey|SharedAccessKey)=(?<secret>[A-Za-z0-9+/]{40,}={0,2})",
    ),
    shape("azure-signature", &["sig="], r"[?&]sig=(?<secret>[A-Za-z0-9%+/]{40,}(?:%3[dD]|=){0,2})"),
    shape("azure-client-secret", &["8Q~"], r"\b[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    shape("jwt", &["eyJ"], r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
    loose(
        "url-password",
        &["://"],
        r#"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@?#"'<>\[\]{}()]{0,128}:(?<secret>[^\s/@?#"'<>\[\]{}()]{3,256})@[A-Za-z0-9\[]"#,
    ),
];
