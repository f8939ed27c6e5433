//! Rows of the tools that agents work with: commands, mail, files, the gate itself, the web.

use vocab::Level;

use super::{
    Executor, Family, Kind, Tool,
    argument::{ARGS, COMMAND, CONTENT, CWD, PATH, PATTERN, QUERY, STDIN, TIMEOUT_SECS, URL},
    needs, takes,
};

const fn acts(name: &'static str) -> Tool {
    Tool::acts(name, Family::Files, Executor::Volume)
}

const fn reads(name: &'static str) -> Tool {
    Tool::reads(name, Family::Files, Executor::Volume)
}

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        input: &[
            needs(COMMAND, Kind::Words, "The command, without arguments"),
            takes(ARGS, Kind::Texts, "Its arguments, one by one"),
            takes(CWD, Kind::Text, "The directory it runs in"),
            takes(STDIN, Kind::Text, "What it reads; nothing if not said"),
            takes(TIMEOUT_SECS, Kind::Whole, "How many seconds it may take"),
        ],
        output: &[
            needs("stdout", Kind::Text, "What it wrote"),
            needs("stderr", Kind::Text, "What it complained about"),
            needs("exit_code", Kind::Whole, "How it ended; 0 is success"),
            takes("duration_ms", Kind::Whole, "How long it took"),
            takes(
                "truncated",
                Kind::Flag,
                "Whether only the end of what it wrote is here",
            ),
            takes("stdout_bytes", Kind::Whole, "How much it wrote"),
            takes("stderr_bytes", Kind::Whole, "How much it complained"),
            takes(
                "signal",
                Kind::Whole,
                "The signal that ended it, if one did",
            ),
            takes("lossy", Kind::Flag, "Whether it wrote what is no text"),
        ],
        says: "Runs a command in the agent's workspace. A command that fails is a result too",
        ..Tool::acts("cmd.run", Family::Command, Executor::Command)
    },
    Tool {
        skip_judge: false,
        says: "Reads mail of an account",
        ..Tool::reads("email.read", Family::Mail, Executor::Server)
    },
    Tool {
        says: "Sends a message",
        ..Tool::acts("email.send", Family::Mail, Executor::Server)
    },
    Tool {
        says: "Creates a file",
        ..acts("fs.create")
    },
    Tool {
        aliases: &["fs.create.dir"],
        input: &[needs(PATH, Kind::Text, "The directory")],
        says: "Creates a directory, and those above it that are missing. One that exists already is fine",
        ..acts("fs.create_dir")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file or directory"),
            takes(
                "recursive",
                Kind::Flag,
                "Whether a directory goes with everything in it; false if not said",
            ),
        ],
        says: "Deletes a file, or a directory",
        ..acts("fs.delete")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            needs(
                "target_content",
                Kind::Text,
                "The text to replace, which must be in the file exactly once",
            ),
            needs(
                "replacement_content",
                Kind::Text,
                "The text that takes its place",
            ),
        ],
        says: "Replaces a text in a file",
        ..acts("fs.edit")
    },
    Tool {
        input: &[
            needs(
                PATTERN,
                Kind::Text,
                "What their names look like, for instance `src/**/*.ts`",
            ),
            needs(PATH, Kind::Text, "The directory to look in"),
        ],
        says: "Finds files by their names",
        ..reads("fs.glob")
    },
    Tool {
        input: &[
            needs(PATTERN, Kind::Text, "A regular expression"),
            needs(PATH, Kind::Text, "The directory to look in"),
        ],
        says: "Finds lines in files",
        ..reads("fs.grep")
    },
    Tool {
        input: &[needs(PATH, Kind::Text, "The directory")],
        says: "Lists a directory",
        ..reads("fs.list")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            needs(
                "edits",
                Kind::Objects,
                "One after the other: `target_content` and `replacement_content`",
            ),
        ],
        says: "Replaces several texts in a file, all of them or none",
        ..acts("fs.multi_edit")
    },
    Tool {
        input: &[needs(PATH, Kind::Text, "The file")],
        says: "Reads a file",
        ..reads("fs.read")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            needs(CONTENT, Kind::Text, "What it will hold"),
        ],
        says: "Writes a file, in place of what it held",
        ..acts("fs.write")
    },
    Tool {
        input: &[needs(
            "steps",
            Kind::Objects,
            "What the conversation is going to do: tools, and where their arguments will come from",
        )],
        output: &[needs(
            "steps",
            Kind::Texts,
            "The plan as it now stands, in words",
        )],
        level: Level::Public,
        ceiling: Level::Confidential,
        says: "Declares what a conversation is going to do, before it has read what strangers wrote",
        ..Tool::acts("portcullis.plan", Family::Own, Executor::Gate)
    },
    Tool {
        output: &[
            needs("version", Kind::Text, "The version of the gate"),
            needs("caller", Kind::Text, "The id of the caller's credential"),
            needs("label", Kind::Text, "What the caller's session has seen"),
            needs("calls", Kind::Whole, "How many calls the session has made"),
            needs(
                "servers",
                Kind::Texts,
                "The servers that the caller may use",
            ),
        ],
        level: Level::Public,
        ceiling: Level::Restricted,
        says: "Tells a caller who it is here, what its session has seen and which servers it may use",
        ..Tool::reads("portcullis.status", Family::Own, Executor::Gate)
    },
    Tool {
        input: &[
            needs(URL, Kind::Text, "An address with http or https"),
            takes(
                "to_markdown",
                Kind::Flag,
                "Whether a page becomes Markdown; true if not said",
            ),
            takes(
                "follow_redirects",
                Kind::Flag,
                "Whether redirects are followed; true if not said",
            ),
            takes(
                TIMEOUT_SECS,
                Kind::Whole,
                "How many seconds it may take; 30 if not said",
            ),
        ],
        says: "Fetches a page",
        ..Tool::reads("web.fetch", Family::Web, Executor::Web)
    },
    Tool {
        input: &[
            needs(QUERY, Kind::Text, "What to look for"),
            takes(
                "max_results",
                Kind::Whole,
                "How many results at most; 10 if not said",
            ),
        ],
        says: "Searches the web",
        ..Tool::reads("web.search", Family::Web, Executor::Web)
    },
];
