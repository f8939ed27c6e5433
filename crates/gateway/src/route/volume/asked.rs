//! What a call of a tool for files asks for: its arguments, checked, with words that help where they are wrong.

use std::time::{Duration, Instant};

use storage::{
    As, Budget, Case, DeleteOptions, ENTRIES, Edit, EditOptions, GlobOptions, GrepOptions,
    ListOptions, MoveOptions, Output, Part, Version, WalkOptions, WriteOptions,
};
use wire::{
    Json,
    builtin::{Kind, Tool},
    json::decode_key,
};

/// How long a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(2);
/// The most that a search or a list gives, whatever was asked for.
const MOST: usize = 10_000;
/// The most lines around a match.
const MOST_AROUND: usize = 100;

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) destination: Option<String>,
    pub(super) operation: Operation,
}

#[derive(Debug)]
pub(super) enum Operation {
    Read {
        part: Part,
        wanted: As,
        numbers: bool,
    },
    Write(String, WriteOptions),
    CreateDir,
    Delete(DeleteOptions),
    Edit(Vec<Edit>, EditOptions),
    List(ListOptions),
    Grep(String, GrepOptions),
    Glob(String, GlobOptions),
    Stat,
    Move(MoveOptions),
    Copy {
        overwrite: bool,
    },
}

/// What other tools call the same argument.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (
        &["old_string", "old_str", "oldText", "old_text", "target"],
        "target_content",
    ),
    (
        &[
            "new_string",
            "new_str",
            "newText",
            "new_text",
            "replacement",
        ],
        "replacement_content",
    ),
    (
        &[
            "file_path",
            "filePath",
            "filename",
            "file",
            "dir",
            "directory",
            "source",
        ],
        "path",
    ),
    (&["text", "contents", "file_text", "data"], "content"),
    (&["dest", "to", "target_path", "new_path"], "destination"),
    (&["regex", "query"], "pattern"),
    (&["include", "include_pattern"], "glob"),
    (&["head_limit", "max_matches"], "max_results"),
    (&["start_line", "line"], "offset"),
];

/// The keys of one edit.
const EDIT: [&str; 4] = [
    "target_content",
    "replacement_content",
    "replace_all",
    "expected_replacements",
];

struct Arguments<'a>(Json<'a>);

impl Asked {
    pub(super) fn read(tool: &'static Tool, arguments: Json<'_>) -> Result<Self, String> {
        check(tool, arguments)?;
        let given = Arguments(arguments);
        let operation = given.operation(tool)?;
        Ok(Self {
            path: given.text("path").unwrap_or_else(|| "/".to_owned()),
            destination: given.text("destination"),
            operation,
        })
    }
}

/// Every argument is one that the tool has, and what it must be.
fn check(tool: &Tool, arguments: Json<'_>) -> Result<(), String> {
    for (key, value) in arguments.raw_fields() {
        let key = decode_key(key);
        if key == policy::BESIDE || value.is_null() {
            continue;
        }
        let Some(field) = tool.input.iter().find(|field| *field.name == *key) else {
            let names: Vec<&str> = tool.input.iter().map(|field| field.name).collect();
            return Err(unknown(tool.name, &names, &key));
        };
        let is_right = match field.kind {
            Kind::Text | Kind::Words => value.as_str().is_some(),
            Kind::Choice(choices) => value.as_str().is_some_and(|text| choices.contains(&&*text)),
            Kind::Flag => value.as_bool().is_some(),
            Kind::Whole => value.as_u64().is_some(),
            Kind::Objects => value.is_array(),
            Kind::Number | Kind::Texts | Kind::Object | Kind::Any => true,
        };
        if !is_right {
            return Err(match field.kind {
                Kind::Choice(choices) => format!("`{key}` is one of {}", choices.join(", ")),
                Kind::Flag => format!("`{key}` is true or false"),
                Kind::Whole => format!("`{key}` is a whole number, 0 or more"),
                Kind::Objects => format!("`{key}` is a list of objects"),
                _ => format!("`{key}` is a text"),
            });
        }
    }
    Ok(())
}

fn unknown(tool: &str, names: &[&str], key: &str) -> String {
    let shown: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    let meant = OTHER_WORDS
        .iter()
        .find(|(words, own)| words.contains(&key) && names.contains(own));
    match meant {
        Some((_, own)) => format!("`{shown}` is called `{own}` here"),
        None => format!("{tool} takes no `{shown}`; it takes {}", names.join(", ")),
    }
}

impl Arguments<'_> {
    fn operation(&self, tool: &'static Tool) -> Result<Operation, String> {
        let content = || self.text("content").unwrap_or_default();
        let pattern = || self.text("pattern").unwrap_or_default();
        Ok(match tool.name {
            "fs.read" => self.reading()?,
            "fs.write" => Operation::Write(content(), self.writing()?),
            "fs.create" => {
                let options = WriteOptions {
                    create_only: true,
                    executable: self.flag("executable"),
                    if_version: None,
                };
                Operation::Write(content(), options)
            }
            "fs.create_dir" => Operation::CreateDir,
            "fs.delete" => Operation::Delete(DeleteOptions {
                recursive: self.flag("recursive"),
                if_version: self.version()?,
            }),
            "fs.edit" => Operation::Edit(vec![self.edit()], self.editing()?),
            "fs.multi_edit" => Operation::Edit(self.edits(tool)?, self.editing()?),
            "fs.list" => Operation::List(ListOptions {
                depth: self.limit("depth", 1).try_into().unwrap_or(u32::MAX),
                details: self.flag("details"),
                limit: self.limit("limit", ENTRIES),
                after: self.text("cursor"),
            }),
            "fs.grep" => Operation::Grep(pattern(), self.grep()),
            "fs.glob" => {
                let options = GlobOptions {
                    by_time: self.text("sort").as_deref() == Some("mtime"),
                    max_results: self.limit("max_results", 1_000),
                    dirs: self.flag("dirs"),
                    walk: self.walk(),
                };
                Operation::Glob(pattern(), options)
            }
            "fs.stat" => Operation::Stat,
            "fs.move" => Operation::Move(MoveOptions {
                overwrite: self.flag("overwrite"),
                if_version: self.version()?,
            }),
            "fs.copy" => Operation::Copy {
                overwrite: self.flag("overwrite"),
            },
            other => return Err(format!("no volume has a tool `{other}`")),
        })
    }

    fn reading(&self) -> Result<Operation, String> {
        let lines = self.count("offset").is_some() || self.count("limit").is_some();
        let bytes = self.count("byte_offset").is_some() || self.count("byte_limit").is_some();
        let part = match (lines, bytes, self.count("tail")) {
            (false, false, None) => Part::Whole,
            (true, false, None) => Part::Lines {
                first: self.count("offset").unwrap_or(1),
                most: self.count("limit"),
            },
            (false, true, None) => Part::Bytes {
                offset: self.count("byte_offset").unwrap_or(0),
                most: self.count("byte_limit"),
            },
            (false, false, Some(tail)) => Part::Tail(tail),
            _ => {
                let says = "lines, bytes and `tail` are three ways to read; use one of them";
                return Err(says.to_owned());
            }
        };
        let wanted = match self.text("as").as_deref() {
            Some("base64") => As::Bytes,
            Some("image") => As::Picture,
            _ => As::Text,
        };
        Ok(Operation::Read {
            part,
            wanted,
            numbers: self.flag("line_numbers"),
        })
    }

    fn writing(&self) -> Result<WriteOptions, String> {
        Ok(WriteOptions {
            if_version: self.version()?,
            create_only: self.flag("create_only"),
            executable: self.flag("executable"),
        })
    }

    fn editing(&self) -> Result<EditOptions, String> {
        Ok(EditOptions {
            if_version: self.version()?,
            dry_run: self.flag("dry_run"),
        })
    }

    fn edit(&self) -> Edit {
        Edit {
            target: self.text("target_content").unwrap_or_default(),
            replacement: self.text("replacement_content").unwrap_or_default(),
            replace_all: self.flag("replace_all"),
            expected: self.count("expected_replacements"),
        }
    }

    /// Each is what `fs.edit` takes, but for the path.
    fn edits(&self, tool: &Tool) -> Result<Vec<Edit>, String> {
        let mut edits = Vec::new();
        let list = self.0.get("edits");
        let items = list.into_iter().flat_map(Json::items);
        for (number, item) in (1..).zip(items) {
            if !item.is_object() {
                return Err(format!("edit {number} is no object"));
            }
            let keys = item.raw_fields();
            let mut keys = keys.iter().map(|(key, _)| decode_key(key));
            if let Some(key) = keys.find(|key| !EDIT.contains(&&**key)) {
                return Err(format!(
                    "edit {number}: {}",
                    unknown(tool.name, &EDIT, &key)
                ));
            }
            let mut needed = EDIT.iter().take(2);
            if let Some(key) = needed.find(|key| item.get(key).and_then(Json::as_str).is_none()) {
                return Err(format!("edit {number} needs `{key}`"));
            }
            edits.push(Arguments(item).edit());
        }
        Ok(edits)
    }

    fn grep(&self) -> GrepOptions {
        let around = |key: &str| {
            let own = self.count(key).or_else(|| self.count("context"));
            usize::try_from(own.unwrap_or(0))
                .unwrap_or(MOST_AROUND)
                .min(MOST_AROUND)
        };
        GrepOptions {
            glob: self.text("glob"),
            exclude: self.text("exclude"),
            case: match self.text("case").as_deref() {
                Some("insensitive") => Case::Insensitive,
                Some("smart") => Case::Smart,
                _ => Case::Sensitive,
            },
            fixed: self.flag("fixed"),
            multiline: self.flag("multiline"),
            before: around("before"),
            after: around("after"),
            output: match self.text("output").as_deref() {
                Some("files") => Output::Files,
                Some("count") => Output::Count,
                _ => Output::Content,
            },
            max_results: self.limit("max_results", 250),
            offset: usize::try_from(self.count("offset").unwrap_or(0)).unwrap_or(usize::MAX),
            walk: self.walk(),
        }
    }

    fn walk(&self) -> WalkOptions {
        WalkOptions {
            no_ignore: self.flag("no_ignore"),
            no_rise: self.flag("no_rise"),
            budget: Budget::until(Instant::now() + SEARCH_TIME),
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key)?.as_str().map(|text| text.into_owned())
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(Json::as_bool) == Some(true)
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    fn limit(&self, key: &str, usual: usize) -> usize {
        let asked = self
            .count(key)
            .and_then(|count| usize::try_from(count).ok());
        asked.unwrap_or(usual).clamp(1, MOST)
    }

    fn version(&self) -> Result<Option<Version>, String> {
        let Some(text) = self.text("if_version") else {
            return Ok(None);
        };
        let version = Version::parse(&text);
        version.map(Some).ok_or_else(|| {
            "`if_version` is 16 hexadecimal digits, as fs.read gives them".to_owned()
        })
    }
}
