//! The columns of a record of the ledger: one table, from which everything that names a column is drawn.
//!
//! The ledger writes and reads records by it, the index and the filters ask by it, the command line and the operator interface
//! name their conditions by it, and pages show by it. So a new column is a row here, and a line where its value is known.
//!
//! A row says, in this order:
//! - the name, and what kind of value it is: `text`, `long` text, `number`, `effect`, `stage` or `verdict`;
//! - who may give it: `facts` of a call, a `change`, the `outcome` of a call, or the ledger alone;
//! - whether it is `scrubbed`: free text, in which a secret could be;
//! - how people ask for it, where they do. What is asked for is a column of the index and a condition of every filter;
//! - the word it is shown under when a record is shown in full, where its place in a line does not say enough;
//! - what it is.
//!
//! The order of rows is the order of keys in a line. A new row stands last: old ledgers stay as they are.

/// Calls `$then! { $args { name kind title "what it is" }… }` with the rows of one choice: `all`, `facts`, `change`, `outcome`, `scrubbed`,
/// `titled`. With `asked`, the title is the words of the condition.
#[macro_export]
macro_rules! record_columns {
    ($choice:ident => $then:ident $args:tt) => {
        $crate::chosen_record_columns! { $choice $then $args []
            { call         text    (facts change _      ) _        "Only this call"                                          "call"       "The call it belongs to, or that it concerns." }
            { intent       number  (_     _      _      ) _        _                                                         _            "The `seq` of the intent that this outcome ends." }
            { door         text    (facts change _      ) _        _                                                         "door"       "Where it came in: `mcp-http`, `mcp-stdio`, …" }
            { action       text    (facts change _      ) scrubbed "Only this action, such as tools/call or config.applied"  _            "`tools/call`, `resources/read`, …; of a change, its name: `server.state`, `session.reset`, …" }
            { caller       text    (facts change _      ) scrubbed "Only this caller: a credential's id or name"             _            "The credential id of who called, did it, or whom it concerns." }
            { session      text    (facts change _      ) scrubbed "Only this session"                                       "session"    "The session of the caller." }
            { server       text    (facts change _      ) scrubbed "Only this server"                                        _            "The server's id." }
            { tool         text    (facts change _      ) scrubbed "Only this tool, by the server's own name for it"         _            "The tool, by the server's own name for it." }
            { user         text    (facts change _      ) scrubbed "Only this person"                                        "user"       "The person behind the caller." }
            { agent        text    (facts change _      ) scrubbed "Only this agent"                                         "agent"      "The program that the credential was made for." }
            { tenant       text    (facts change _      ) scrubbed "Only this tenant"                                        "tenant"     "The tenant it belongs to." }
            { execution    text    (facts change _      ) scrubbed "Only this execution"                                     "execution"  "The execution a signed call belongs to." }
            { context      text    (facts change _      ) scrubbed _                                                         "context"    "The security context that bounded it." }
            { signature    text    (facts _      _      ) _        _                                                         "signature"  "The client's signature." }
            { target       text    (facts change _      ) scrubbed _                                                         "target"     "The name the caller used, where it is not the one that server and tool make; what a change changed, where it is none of the above." }
            { effect       effect  (facts _      _      ) _        "Only this effect: read or consequential"                 "effect"     "What the operator says the tool does to the world." }
            { definition   text    (facts change _      ) _        _                                                         "definition" "Digest of the pinned definition." }
            { stage        stage   (_     _      _      ) _        _                                                         _            "The stage that decided." }
            { verdict      verdict (_     _      _      ) _        "Only this verdict: permitted, refused, failed, cancelled, indeterminate or abandoned" _ "How the call ended, in one word." }
            { violation    text    (_     change outcome) scrubbed "Only this code of a refusal or failure"                  _            "The stable code of a refusal or failure." }
            { payload      long    (_     _      outcome) scrubbed _                                                         "payload"    "What the rule looked at, as a JSON object." }
            { detail       long    (_     change outcome) scrubbed _                                                         "detail"     "For the operator: which check, which policy, what broke." }
            { label        text    (facts change _      ) _        _                                                         "label"      "The session's label when the call was weighed." }
            { label_after  text    (_     change outcome) _        _                                                         _            "The session's label afterwards." }
            { origins      long    (facts _      _      ) scrubbed _                                                         "origins"    "Where the session's data came from by then." }
            { after        text    (facts _      _      ) _        _                                                         "after"      "The call whose result the session had taken in last." }
            { approval     text    (facts change _      ) _        "Only this approval"                                      "approval"   "The approval that let it through, or that it waits for." }
            { reason       long    (_     change _      ) scrubbed _                                                         "reason"     "Why a person did it, in their words." }
            { args         text    (facts _      _      ) _        _                                                         "arguments"  "BLAKE3 of the canonical arguments, in hex." }
            { args_bytes   number  (facts _      _      ) _        _                                                         _            "How long they are." }
            { body         text    (facts _      _      ) _        _                                                         _            "Digest of the kept, encrypted arguments." }
            { result       text    (_     _      outcome) _        _                                                         "result"     "BLAKE3 of the result as delivered, in hex." }
            { result_bytes number  (_     _      outcome) _        _                                                         _            "How long it is." }
            { us           number  (_     _      _      ) _        _                                                         _            "From opened to concluded, in microseconds." }
            { bundle       text    (facts change _      ) _        _                                                         "bundle"     "The policy bundle that judged." }
            { policy       long    (facts _      _      ) scrubbed _                                                         "policy"     "The policies that decided, by id, with a space between." }
            { tree         long    (_     _      _      ) _        _                                                         _            "The peaks of the hash tree over all records before this one, in hex." }
            { count        number  (_     change _      ) _        _                                                         _            "How many events this record stands for, where it stands for many." }
            { server_us    number  (facts _      _      ) _        _                                                         "server µs"  "How long the target took, in microseconds: from Dispatch to its last word, with the time its questions waited." }
        }
    };
}

/// The rows of one choice, one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! chosen_record_columns {
    ($choice:ident $then:ident $args:tt [$($found:tt)*]) => {
        $then! { $args $($found)* }
    };
    (all $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident $by:tt $scrub:tt $asked:tt $title:tt $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { all $then $args [$($found)* { $name $kind $title $what }] $($rest)* }
    };
    (facts $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident (facts $change:tt $outcome:tt) $scrub:tt $asked:tt $title:tt $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { facts $then $args [$($found)* { $name $kind $title $what }] $($rest)* }
    };
    (change $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident ($facts:tt change $outcome:tt) $scrub:tt $asked:tt $title:tt $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { change $then $args [$($found)* { $name $kind $title $what }] $($rest)* }
    };
    (outcome $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident ($facts:tt $change:tt outcome) $scrub:tt $asked:tt $title:tt $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { outcome $then $args [$($found)* { $name $kind $title $what }] $($rest)* }
    };
    (scrubbed $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident $by:tt scrubbed $asked:tt $title:tt $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { scrubbed $then $args [$($found)* { $name $kind $title $what }] $($rest)* }
    };
    (asked $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident $by:tt $scrub:tt $asked:literal $title:tt $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { asked $then $args [$($found)* { $name $kind $asked $what }] $($rest)* }
    };
    (titled $then:ident $args:tt [$($found:tt)*] { $name:ident $kind:ident $by:tt $scrub:tt $asked:tt $title:literal $what:literal } $($rest:tt)*) => {
        $crate::chosen_record_columns! { titled $then $args [$($found)* { $name $kind $title $what }] $($rest)* }
    };
    ($choice:ident $then:ident $args:tt $found:tt $row:tt $($rest:tt)*) => {
        $crate::chosen_record_columns! { $choice $then $args $found $($rest)* }
    };
}

/// How a value of a column is owned by a record: texts are empty, and numbers nothing, where a record has none.
#[doc(hidden)]
#[macro_export]
macro_rules! record_value {
    (number) => { Option<u64> };
    ($kind:ident) => { String };
}
