//! Rows of the tools that agents work with: commands, mail, files, the gate itself, the web.

use vocab::Level;

use super::{
    Executor, Family, Field, Kind, Tool,
    argument::{ARGS, COMMAND, CONTENT, CWD, PATH, PATTERN, QUERY, STDIN, TIMEOUT_SECS, URL},
    needs, takes,
};

const fn acts(name: &'static str) -> Tool {
    Tool::acts(name, Family::Files, Executor::Volume)
}

const fn reads(name: &'static str) -> Tool {
    Tool::reads(name, Family::Files, Executor::Volume)
}

const DESTINATION: &str = "destination";
const LIMIT: &str = "limit";
const MAX_RESULTS: &str = "max_results";
const OFFSET: &str = "offset";

const IF_VERSION: Field = takes(
    "if_version",
    Kind::Text,
    "Only if the file still has this version, as another call told it",
);
const DRY_RUN: Field = takes("dry_run", Kind::Flag, "Only show what would change");
const OVERWRITE: Field = takes(
    "overwrite",
    Kind::Flag,
    "Whether a file there is replaced; false if not said",
);
const EXECUTABLE: Field = takes("executable", Kind::Flag, "Whether a new file can be run");
const NO_IGNORE: Field = takes(
    "no_ignore",
    Kind::Flag,
    "Whether what `.gitignore` names is looked at too",
);
const NO_RISE: Field = takes(
    "no_rise",
    Kind::Flag,
    "Leave out what would raise the label of the session, and say how much",
);

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
        input: &[
            needs(PATH, Kind::Text, "The file"),
            needs(
                DESTINATION,
                Kind::Text,
                "The copy; directories above it that are missing are made",
            ),
            OVERWRITE,
        ],
        says: "Copies a file",
        ..acts("fs.copy")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            takes(
                CONTENT,
                Kind::Text,
                "What it will hold; nothing if not said",
            ),
            EXECUTABLE,
        ],
        says: "Creates a file. One that exists already is left as it is, and an error",
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
            IF_VERSION,
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
            takes(
                "replace_all",
                Kind::Flag,
                "Whether it is replaced wherever it stands; false if not said",
            ),
            takes(
                "expected_replacements",
                Kind::Whole,
                "In how many places exactly it stands",
            ),
            IF_VERSION,
            DRY_RUN,
        ],
        says: "Replaces a text in a file",
        ..acts("fs.edit")
    },
    Tool {
        input: &[
            needs(
                PATTERN,
                Kind::Text,
                "What their names look like, for instance `src/**/*.ts`. Without a slash it matches at any depth",
            ),
            needs(PATH, Kind::Text, "The directory to look in"),
            takes(
                "sort",
                Kind::Choice(&["path", "mtime"]),
                "By path, or the newest first; by path if not said",
            ),
            takes("dirs", Kind::Flag, "Whether directories count too"),
            takes(
                MAX_RESULTS,
                Kind::Whole,
                "How many at most; 1000 if not said",
            ),
            NO_IGNORE,
            NO_RISE,
        ],
        says: "Finds files by their names. What `.gitignore` names is left out",
        ..reads("fs.glob")
    },
    Tool {
        input: &[
            needs(PATTERN, Kind::Text, "A regular expression"),
            needs(PATH, Kind::Text, "The directory to look in, or a file"),
            takes(
                "glob",
                Kind::Text,
                "Only files with such names, for instance `*.rs`",
            ),
            takes("exclude", Kind::Text, "No files with such names"),
            takes(
                "case",
                Kind::Choice(&["sensitive", "insensitive", "smart"]),
                "Whether upper and lower case differ; `sensitive` if not said",
            ),
            takes(
                "fixed",
                Kind::Flag,
                "Whether the pattern is the text itself, and no expression",
            ),
            takes(
                "multiline",
                Kind::Flag,
                "Whether a match may go over several lines",
            ),
            takes(
                "before",
                Kind::Whole,
                "How many lines before each are shown",
            ),
            takes("after", Kind::Whole, "How many lines after each are shown"),
            takes(
                "context",
                Kind::Whole,
                "How many lines around each are shown",
            ),
            takes(
                "output",
                Kind::Choice(&["content", "files", "count"]),
                "The lines, the files that have some, or how many each file has; the lines if not said",
            ),
            takes(
                MAX_RESULTS,
                Kind::Whole,
                "How many at most; 250 if not said",
            ),
            takes(OFFSET, Kind::Whole, "How many to leave out, to go on"),
            NO_IGNORE,
            NO_RISE,
        ],
        says: "Finds lines in files. What `.gitignore` names is left out",
        ..reads("fs.grep")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The directory"),
            takes(
                "depth",
                Kind::Whole,
                "How many levels, 1 to 5; 1 if not said",
            ),
            takes(
                "details",
                Kind::Flag,
                "Whether size, time, version and label are told too",
            ),
            takes(LIMIT, Kind::Whole, "How many at most; 1000 if not said"),
            takes("cursor", Kind::Text, "Where to go on, from an earlier list"),
        ],
        says: "Lists a directory",
        ..reads("fs.list")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file or directory"),
            needs(
                DESTINATION,
                Kind::Text,
                "Its new place; directories above it that are missing are made",
            ),
            OVERWRITE,
            IF_VERSION,
        ],
        says: "Moves or renames a file or directory within a volume",
        ..acts("fs.move")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            needs(
                "edits",
                Kind::Objects,
                "One after the other: `target_content` and `replacement_content`",
            ),
            IF_VERSION,
            DRY_RUN,
        ],
        says: "Replaces several texts in a file, all of them or none",
        ..acts("fs.multi_edit")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            takes(OFFSET, Kind::Whole, "The first line, counted from 1"),
            takes(
                LIMIT,
                Kind::Whole,
                "How many lines; 2000 of a long file if not said",
            ),
            takes("tail", Kind::Whole, "So many lines from the end"),
            takes(
                "byte_offset",
                Kind::Whole,
                "The first byte, instead of lines",
            ),
            takes("byte_limit", Kind::Whole, "How many bytes"),
            takes(
                "line_numbers",
                Kind::Flag,
                "Whether each line begins with its number",
            ),
            takes(
                "as",
                Kind::Choice(&["text", "base64", "image"]),
                "As what it is given; `text` if not said",
            ),
        ],
        says: "Reads a file",
        ..reads("fs.read")
    },
    Tool {
        input: &[needs(PATH, Kind::Text, "The file or directory")],
        says: "Tells what is at a path: type, size, time, version and label",
        ..reads("fs.stat")
    },
    Tool {
        input: &[
            needs(PATH, Kind::Text, "The file"),
            needs(CONTENT, Kind::Text, "What it will hold"),
            IF_VERSION,
            takes(
                "create_only",
                Kind::Flag,
                "Whether a file that exists already is left as it is; false if not said",
            ),
            EXECUTABLE,
        ],
        says: "Writes a file, in place of what it held",
        ..acts("fs.write")
    },
    Tool {
        input: &[needs(
            "handles",
            Kind::Texts,
            "Handles of sealed texts, as in `sealed:3-0a1b2c`",
        )],
        output: &[needs("texts", Kind::Texts, "The texts")],
        level: Level::Public,
        ceiling: Level::Restricted,
        says: "Shows sealed texts; what they carry joins the label of the session",
        ..Tool::reads("portcullis.open", Family::Own, Executor::Gate)
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
                "How many seconds it may take; 30 if not said, 120 at most",
            ),
            takes(
                "start_index",
                Kind::Whole,
                "From which character of the text on; 0 if not said",
            ),
            takes(
                "max_length",
                Kind::Whole,
                "How many characters at most; 50000 if not said",
            ),
            takes(
                "fresh",
                Kind::Flag,
                "Whether it is fetched again although it was a moment ago",
            ),
            takes(
                "as",
                Kind::Choice(&["text", "image"]),
                "As what it is given; text if not said",
            ),
            takes(
                "save_to",
                Kind::Text,
                "A path on a volume: the bytes are kept there instead of being shown",
            ),
        ],
        level: Level::Public,
        ceiling: Level::Public,
        says: "Fetches an address of the web. A page comes as Markdown, a long one in parts",
        ..Tool::reads("web.fetch", Family::Web, Executor::Web)
    },
    Tool {
        input: &[
            needs(QUERY, Kind::Text, "What to look for"),
            takes(
                MAX_RESULTS,
                Kind::Whole,
                "How many results at most; 10 if not said, 20 at most",
            ),
        ],
        level: Level::Public,
        ceiling: Level::Public,
        says: "Searches the web: titles, addresses and what pages say of it",
        ..Tool::reads("web.search", Family::Web, Executor::Web)
    },
];
