//! The table of injection patterns. `docs/operate/injection.md` shows the same table to people, and a test holds them together.
//!
//! Patterns of the text kind are matched against the *folded* text: lower case, look-alike letters made plain, invisible characters
//! taken out, any white space one space. Patterns of the hidden kind are matched against the text as it came.

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    pub family: Family,
    /// Three refuses alone; otherwise weights of different rules add up.
    pub weight: u8,
    /// Words, one of which is in everything the pattern matches: the pattern is tried only around them. Hidden rules have none. A word that
    /// ordinary prose is full of costs time in every text, so two that stand together are better than one.
    pub words: &'static [&'static str],
    /// Matched against the folded text, or for [`Family::Hidden`] against the text as it came.
    pub pattern: &'static str,
    /// What was seen, for the operator.
    pub says: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Tells a model to drop what it was told.
    Override,
    /// Tells a model to be something else.
    Role,
    /// Asks for what a model was told or trusted with.
    Disclosure,
    /// Looks like the inside of a conversation.
    Markup,
    /// Hides what will run.
    Encoded,
    /// Characters a person does not see.
    Hidden,
}

impl Family {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Override => "override",
            Self::Role => "role",
            Self::Disclosure => "disclosure",
            Self::Markup => "markup",
            Self::Encoded => "encoded",
            Self::Hidden => "hidden",
        }
    }
}

const fn rule(
    name: &'static str,
    family: Family,
    weight: u8,
    words: &'static [&'static str],
    pattern: &'static str,
    says: &'static str,
) -> Rule {
    Rule {
        name,
        family,
        weight,
        words,
        pattern,
        says,
    }
}

use Family::{Disclosure, Encoded, Hidden, Markup, Override, Role};

/// Every rule we ship. Rules can be added to it, never taken away.
pub const RULES: &[Rule] = &[
    rule(
        "ignore-instructions",
        Override,
        3,
        &[
            "ignore",
            "disregard",
            "forget",
            "override",
            "discard",
            "overrule",
        ],
        r"\b(?:ignore|disregard|forget|override|discard|overrule)\s+(?:all\s+|any\s+|every\s+)?(?:of\s+)?(?:the\s+|your\s+|these\s+|those\s+|its\s+)?(?:previous|prior|above|preceding|earlier|foregoing|original|initial|existing)\s+(?:\w+\s+){0,2}?(?:instruction|prompt|direction|directive|rule|guideline|constraint|command)s?\b",
        "tells a model to ignore its instructions",
    ),
    rule(
        "ignore-your-instructions",
        Override,
        3,
        &["ignore", "disregard", "forget", "override"],
        r"\b(?:ignore|disregard|forget|override)\s+(?:about\s+)?(?:all\s+(?:of\s+)?(?:the\s+|your\s+|these\s+)?|your\s+)(?:\w+\s+){0,2}?(?:instruction|guideline|constraint|programming|training|restriction|safeguard|system\s+prompt|rule)s?\b",
        "tells a model to ignore its instructions",
    ),
    rule(
        "disregard-above",
        Override,
        3,
        &["ignore", "disregard"],
        r"\b(?:ignore|disregard)\s+(?:everything|anything|all|whatever)\s+(?:\w+\s+){0,4}?(?:above\s*(?:[.,;:!)\x1f]|and\b)|said\s+before\b|so\s+far\b|before\s+this\b|(?:until|up\s+to)\s+now\b)",
        "tells a model to disregard what came before",
    ),
    rule(
        "system-override",
        Override,
        3,
        &["override"],
        r"\bsystem\s+(?:prompt\s+)?override\b",
        "claims to override the system prompt",
    ),
    rule(
        "change-system-prompt",
        Override,
        2,
        &["system prompt"],
        r"\b(?:override|overwrite|replace|reset|erase)\s+(?:the\s+|your\s+)?system\s+prompt\b",
        "asks to replace the system prompt",
    ),
    rule(
        "new-instructions",
        Override,
        2,
        &[
            "new instruction",
            "updated instruction",
            "real instruction",
            "actual instruction",
            "revised instruction",
            "system instruction",
        ],
        r"\b(?:new|updated|real|actual|revised)\s+(?:system\s+)?instructions?\s*(?::|follow\b)",
        "announces new instructions",
    ),
    rule(
        "bypass-your-safety",
        Override,
        3,
        &["bypass", "circumvent", "evade", "disable", "turn off"],
        r"\b(?:bypass|circumvent|evade|disable|turn\s+off)\s+(?:all\s+)?(?:of\s+)?your\s+(?:\w+\s+){0,2}?(?:security|safety|polic(?:y|ies)|classification|restriction|guardrail|filter|rule|guideline|safeguard)s?\b",
        "tells a model to get round its safety rules",
    ),
    rule(
        "bypass-security",
        Override,
        1,
        &["bypass", "circumvent", "evade"],
        r"\b(?:bypass|circumvent|evade)\s+(?:all\s+|any\s+|the\s+|its\s+)*(?:security|safety|polic(?:y|ies)|classification|restrictions?|guardrails?|content\s+filters?|moderation)\b",
        "speaks of getting round security, policy or classification",
    ),
    rule(
        "without-telling",
        Override,
        2,
        &["the user"],
        r"\b(?:do\s+not|don.?t|never|without)\s+(?:tell|inform|mention|notify|alert|telling|informing|mentioning|notifying|alerting|show|showing)\s+(?:this\s+to\s+|it\s+to\s+|that\s+to\s+|anything\s+to\s+)?the\s+user\b",
        "asks to keep something from the user",
    ),
    rule(
        "you-are-now-a-model",
        Role,
        3,
        &["are now", "no longer"],
        r"\byou\s+are\s+(?:now|no\s+longer)\s+(?:\S+\s+){0,4}?(?:ai|llm|chatbot|language\s+model|dan|jailbroken|unrestricted|unfiltered|uncensored)\b",
        "gives a model another identity",
    ),
    rule(
        "you-are-now",
        Role,
        1,
        &["are now"],
        r"\byou\s+are\s+now\s+an?\s+\w",
        "may give a model another identity",
    ),
    rule(
        "you-are-in-mode",
        Role,
        3,
        &[
            "god mode",
            "sudo mode",
            "admin mode",
            "root mode",
            "developer mode",
            "jailbreak mode",
            "dan mode",
            "debug mode",
            "maintenance mode",
            "unrestricted mode",
        ],
        r"\byou\s+are\s+(?:now\s+)?(?:running\s+|operating\s+)?in\s+(?:\w+\s+)?(?:god|sudo|admin|root|developer|jailbreak|dan|debug|maintenance|unrestricted)\s+mode\b",
        "claims a mode with more rights",
    ),
    rule(
        "enter-mode",
        Role,
        2,
        &[
            "god mode",
            "jailbreak mode",
            "dan mode",
            "unrestricted mode",
        ],
        r"\b(?:enter|enable|activate|switch\s+to|engage|unlock)\s+(?:\w+\s+)?(?:god|jailbreak|dan|unrestricted)\s+mode\b",
        "asks for a mode with more rights",
    ),
    rule(
        "no-restrictions",
        Role,
        3,
        &[
            "pretend you",
            "pretend that",
            "imagine you",
            "imagine that",
            "assume you",
            "assume that",
            "act as",
        ],
        r"\b(?:pretend|imagine|assume|act as\s+(?:if|though))\s+(?:that\s+)?you(?:\s+(?:have|had|are|were)|.re)\s+(?:no|not|free\s+(?:of|from)|without|unbound)\b(?:\s+\w+){0,4}?\s+(?:restriction|rule|limit|limitation|filter|polic|guideline|bound)",
        "asks a model to act without its rules",
    ),
    rule(
        "your-system-prompt",
        Disclosure,
        3,
        &[
            "system prompt",
            "hidden prompt",
            "hidden instruction",
            "hidden rule",
            "initial prompt",
            "initial instruction",
            "original prompt",
            "original instruction",
            "secret prompt",
            "secret instruction",
        ],
        r"\b(?:reveal|disclose|leak|dump|print|output|show|repeat|display|tell|give|send)\s+(?:me\s+|us\s+|out\s+)?(?:all\s+(?:of\s+)?)?your\s+(?:\w+\s+){0,2}?(?:system\s+prompt|hidden\s+(?:prompt|instruction|rule)s?|(?:initial|original|secret)\s+(?:prompt|instruction)s?)\b",
        "asks a model for its system prompt",
    ),
    rule(
        "reveal-secrets",
        Disclosure,
        2,
        &[
            "reveal",
            "disclose",
            "leak",
            "exfiltrate",
            "dump",
            "steal",
            "harvest",
        ],
        r"\b(?:reveal|disclose|leak|exfiltrate|dump|steal|harvest)\s+(?:me\s+)?(?:all\s+|any\s+|every\s+)?(?:of\s+)?(?:[\w']+\s+){0,3}?(?:secret|credential|password|api\s+key|private\s+key|access\s+token|ssh\s+key|environment\s+variable)s?\b",
        "asks for secrets, credentials, keys or passwords",
    ),
    rule(
        "send-what-you-saw",
        Disclosure,
        2,
        &["conversation", "chat"],
        r"\b(?:send|forward|post|upload|email|exfiltrate|transmit)\s+(?:me\s+)?(?:all\s+(?:of\s+)?)?(?:the\s+|this\s+|your\s+)?(?:entire\s+|full\s+|whole\s+|complete\s+)?(?:conversation|chat)\s*(?:history|log|transcript|so\s+far)?\s+to\b",
        "asks to send the conversation somewhere",
    ),
    rule(
        "image-beacon",
        Disclosure,
        2,
        &["!["],
        r"!\[[^\]\x1f]{0,80}\]\(https?://[^)\s\x1f]{0,200}[?&][^)=\s\x1f]{1,40}=(?:\{|%7b|\$\{|<|\[)",
        "holds an image address with room for data",
    ),
    rule(
        "chat-turn",
        Markup,
        3,
        &["<|"],
        r"<\|(?:im_start|start_header_id|system|developer)\|>\s*(?:system|developer|user|assistant)?",
        "holds the markers of a model's conversation",
    ),
    rule(
        "chat-tokens",
        Markup,
        2,
        &["<|", "inst]", "sys>>"],
        r"<\|(?:im_end|endoftext|eot_id|end_header_id|end|assistant|user)\|>|\[/?inst\]|<</?sys>>",
        "holds the markers of a model's conversation",
    ),
    rule(
        "instruction-tags",
        Markup,
        2,
        &[
            "important>",
            "system>",
            "secret>",
            "instruction>",
            "instructions>",
            "prompt>",
            "message>",
            "reminder>",
        ],
        r"</?(?:important|system|secret|instructions?|system[-_ ](?:prompt|message|reminder))>",
        "wraps text in tags that models take for orders",
    ),
    rule(
        "decode-and-run",
        Encoded,
        3,
        &[
            "base64 -d",
            "base64 --decode",
            "atob",
            "unescape",
            "b64decode",
            "buffer.from",
            "fromhex",
            "codecs.decode",
            "gzinflate",
            "base64_decode",
            "marshal.loads",
        ],
        r"\bbase64 (?:-d|-di|--decode)\b[^\x1f]{0,120}\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh\b|\b(?:eval|exec|function|settimeout)\s*\(\s*(?:atob|unescape|base64\.b64decode|buffer\.from|bytes\.fromhex|codecs\.decode|gzinflate|base64_decode|marshal\.loads)\b",
        "decodes something and runs it",
    ),
    rule(
        "encoded-command",
        Encoded,
        3,
        &["powershell", "pwsh"],
        r"\b(?:powershell|pwsh)(?:\.exe)?\s[^\x1f]{0,120}-e(?:c|nc|ncodedcommand)?\s+[a-z0-9+/=]{20}",
        "runs an encoded command",
    ),
    rule(
        "reverse-shell",
        Encoded,
        3,
        &["/dev/tcp/", "bash -i", "/bin/", "mkfifo"],
        r"\bbash -i\s*>&|>&?\s*/dev/tcp/|\bnc(?:at)?\s+[^\x1f]{0,60}-e\s+/bin/|\bmkfifo\s[^\x1f]{0,80}\|\s*nc\b",
        "opens a shell to somewhere else",
    ),
    rule(
        "pipe-to-shell",
        Encoded,
        2,
        &[
            "|sh", "| sh", "|bash", "| bash", "|zsh", "| zsh", "|dash", "| dash", "|sudo", "| sudo",
        ],
        r"\b(?:curl|wget|echo|printf)\b[^\x1f|]{0,200}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b",
        "pipes a text into a shell",
    ),
    rule(
        "decode-call",
        Encoded,
        1,
        &["atob", "base64_decode"],
        r"\batob\s*\(|\bbase64_decode\s*\(",
        "decodes base64",
    ),
    rule(
        "dynamic-code",
        Encoded,
        1,
        &["eval(", "eval (", "new function"],
        r"\beval\s*\(|\bnew function\s*\(",
        "runs code that it makes up",
    ),
    rule(
        "rot13",
        Encoded,
        1,
        &["rot13", "rot-13", "rot 13"],
        r"\brot[-\s]?13\b",
        "mentions ROT13",
    ),
    rule(
        "tag-characters",
        Hidden,
        3,
        &[],
        r"(?:^|[^\x{1F3F4}\x{E0000}-\x{E007F}])[\x{E0000}-\x{E007F}]",
        "holds invisible letters (Unicode tags)",
    ),
    rule(
        "selector-run",
        Hidden,
        3,
        &[],
        r"[\x{FE00}-\x{FE0F}]{3}|[\x{E0100}-\x{E01EF}]{2}",
        "holds data in a run of variation selectors",
    ),
    rule(
        "split-word",
        Hidden,
        3,
        &[],
        r"(?:[A-Za-z][\x{200B}-\x{200F}\x{2060}-\x{2064}\x{FEFF}\x{00AD}]+){3}[A-Za-z]",
        "splits a word with invisible characters",
    ),
    rule(
        "zero-width",
        Hidden,
        1,
        &[],
        r"[A-Za-z][\x{200B}-\x{200D}\x{2060}\x{FEFF}]+[A-Za-z]",
        "holds a zero-width character in a word",
    ),
    rule(
        "bidi-override",
        Hidden,
        2,
        &[],
        r"[\x{202D}\x{202E}]",
        "turns the direction of text round",
    ),
    rule("nul", Hidden, 3, &[], r"\x00", "holds a NUL character"),
    rule(
        "terminal-escape",
        Hidden,
        1,
        &[],
        r"\x1b[\[\]P_^]",
        "holds terminal control sequences",
    ),
];
