//! From texts to rules: parse, read the annotations, check against the schema. Everything that is wrong is reported at once.
//!
//! **Invariant: a policy that names what does not exist is refused, with line and column.** Test
//! `an_unknown_attribute_is_refused_where_it_stands`.

use std::collections::BTreeMap;

use cedar_policy::{Effect, Policy, PolicySet, ValidationError, ValidationWarning};

use super::{
    decision::Note,
    mentions::Misuse,
    path::Path,
    problem::Problem,
    rewrite::{self, RewriteOp},
    rule::{Rule, RuleError, Verdict},
    source::{self, Piece, Place},
    words::{View, Words, policy_id},
};

const ANNOTATIONS: &str =
    "@id, @effect, @agent, @operator, @rewrite, @matching and @with are the annotations there are";
const SEE_SCHEMA: &str = "use only what the schema declares; docs/operate/policy.md lists it";

/// How deep a policy's syntax may be. Cedar works through it by recursion, and the stack it is given is sized for this, with room to
/// spare; frames of a debug build are several times as large.
const MAX_NESTING: usize = 2048;
const STACK: usize = if cfg!(debug_assertions) {
    256 << 20
} else {
    64 << 20
};

/// Does work that recurses as deep as a policy is nested.
pub(super) fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::grow(STACK, work)
}

/// A policy that parsed, and where it stands.
struct Parsed<'a> {
    place: Place<'a>,
    piece: Piece<'a>,
    policy: Policy,
}

/// All rules of a bundle, in the order of the file names and of the text.
pub(super) fn rules(words: &Words, files: &[(String, String)]) -> Result<Vec<Rule>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut rules = Vec::new();
    let parsed = parse(files, &mut problems);
    validate(words, &parsed, &mut problems);
    for one in parsed {
        match one.rule() {
            Ok(rule) => rules.push(rule),
            Err(problem) => problems.push(problem),
        }
    }
    if rules.is_empty() && problems.is_empty() {
        let file = files
            .first()
            .map_or_else(String::new, |(file, _)| file.clone());
        let message = "the bundle has no policies, so it would block every call".to_owned();
        let fix =
            "start with `permit (principal, action, resource);` and add what to ask about or block"
                .to_owned();
        problems.push(Problem {
            file,
            line: 1,
            column: 1,
            message,
            fix,
        });
    }
    problems.sort_by(|one, two| {
        (&one.file, one.line, one.column).cmp(&(&two.file, two.line, two.column))
    });
    problems.dedup();
    if problems.is_empty() {
        Ok(rules)
    } else {
        Err(problems)
    }
}

fn parse<'a>(files: &'a [(String, String)], problems: &mut Vec<Problem>) -> Vec<Parsed<'a>> {
    let mut parsed: Vec<Parsed<'a>> = Vec::new();
    let mut names: BTreeMap<String, (String, u32)> = BTreeMap::new();
    for (file, text) in files {
        let place = Place { file, text };
        if let Some((at, hidden)) = text.char_indices().find(|(_, next)| is_hidden(*next)) {
            let escape = hidden.escape_unicode();
            let message =
                format!("an invisible character, {escape}, makes the text look other than it is");
            problems.push(Problem::at(
                &place,
                at,
                message,
                format!("take it away, or write it as `{escape}` in a text"),
            ));
        }
        for piece in source::pieces(text) {
            if source::nesting(piece.text) > MAX_NESTING {
                let message = format!(
                    "the policy is nested deeper than {MAX_NESTING} levels, or chains as many conditions"
                );
                problems.push(Problem::at(
                    &place,
                    piece.offset,
                    message,
                    "make several policies of it",
                ));
                continue;
            }
            let policy = match Policy::parse(None, piece.text) {
                Ok(policy) => policy,
                Err(errors) => {
                    let fix = "policies look like `permit (principal, action, resource) when { … };`, without template slots";
                    problems.extend(
                        errors
                            .iter()
                            .map(|error| Problem::from_cedar(&place, piece.offset, error, fix)),
                    );
                    continue;
                }
            };
            let (line, column) = place.line_column(piece.offset);
            let name = policy
                .annotation("id")
                .map_or_else(|| unnamed(&names, file, line, column), str::to_owned);
            if let Some((other, at)) = names.insert(name.clone(), (file.clone(), line)) {
                let offset = piece.offset + source::annotation_offset(piece.text, "id");
                let message = format!("the policy id `{name}` is taken by {other}:{at}");
                problems.push(Problem::at(
                    &place,
                    offset,
                    message,
                    "give each policy its own @id",
                ));
                continue;
            }
            parsed.push(Parsed {
                place,
                piece,
                policy: policy.new_id(policy_id(&name)),
            });
        }
    }
    parsed
}

/// Ids stand in records, messages and command lines.
fn is_id(id: &str) -> bool {
    let is_plain = id
        .bytes()
        .all(|next| next.is_ascii_alphanumeric() || b"-_./".contains(&next));
    is_plain && (1..=128).contains(&id.len()) && ![Note::NO_PERMIT, Note::UNREADABLE].contains(&id)
}

/// What a policy without an id is called: where it stands.
fn unnamed(taken: &BTreeMap<String, (String, u32)>, file: &str, line: u32, column: u32) -> String {
    let short = format!("{file}:{line}");
    if taken.contains_key(&short) {
        format!("{short}:{column}")
    } else {
        short
    }
}

fn validate(words: &Words, parsed: &[Parsed<'_>], problems: &mut Vec<Problem>) {
    let policies = match PolicySet::from_policies(parsed.iter().map(|one| one.policy.clone())) {
        Ok(policies) => policies,
        Err(error) => {
            let message = error.to_string();
            problems.push(Problem {
                file: String::new(),
                line: 1,
                column: 1,
                message,
                fix: "give each policy its own @id".to_owned(),
            });
            return;
        }
    };
    let result = words.validate(&policies);
    for one in parsed {
        let mut errors: Vec<Problem> = result
            .validation_errors()
            .filter(|error| error.policy_id() == one.policy.id())
            .map(|error| {
                Problem::from_cedar(&one.place, one.piece.offset, error, fix_of_error(error))
            })
            .collect();
        // A warning often says the same as an error, less clearly.
        if errors.is_empty() {
            let mut warnings = result
                .validation_warnings()
                .filter(|warning| warning.policy_id() == one.policy.id());
            let warning = warnings.find(|warning| !is_about_a_text(warning));
            errors.extend(warning.map(|it| {
                Problem::from_cedar(
                    &one.place,
                    one.piece.offset,
                    it,
                    fix_of_warning(it, &one.policy),
                )
            }));
        }
        // The same mistake is found once for every kind of target.
        errors.sort_by(|a, b| (a.line, a.column, &a.message).cmp(&(b.line, b.column, &b.message)));
        errors.dedup_by_key(|problem| (problem.line, problem.column));
        problems.extend(errors);
    }
}

fn fix_of_error(error: &ValidationError) -> &'static str {
    match error {
        ValidationError::UnsafeTagAccess(_) => {
            "test it first: `context.arguments.hasTag(\"x\") && context.arguments.getTag(\"x\") == …`"
        }
        ValidationError::UnsafeOptionalAttributeAccess(_) => {
            "test it first: `principal has user && principal.user == …`"
        }
        ValidationError::UnrecognizedActionId(_) => {
            "the actions are call, read, get, complete and subscribe"
        }
        ValidationError::InvalidEnumEntity(_) => {
            "levels are PUBLIC, INTERNAL, CONFIDENTIAL and RESTRICTED; effects are read and consequential"
        }
        ValidationError::UnexpectedType(_) | ValidationError::IncompatibleTypes(_) => {
            "compare values of one type"
        }
        _ => SEE_SCHEMA,
    }
}

/// Texts to compare with may be of any script, and hold any character that is written out as an escape.
fn is_about_a_text(warning: &ValidationWarning) -> bool {
    matches!(
        warning,
        ValidationWarning::MixedScriptString(_) | ValidationWarning::BidiCharsInString(_)
    )
}

/// Characters that make a text look other than it is.
fn is_hidden(next: char) -> bool {
    matches!(next, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn fix_of_warning(warning: &ValidationWarning, policy: &Policy) -> &'static str {
    match warning {
        ValidationWarning::ImpossiblePolicy(_) if policy.has_non_scope_constraint() => {
            "this policy can never match; look at its condition first: a `when` that is never true, or an `unless` that always is, leaves \
             nothing. Then at its action and target: tools are called, resources read and subscribed to, prompts got, and both completed"
        }
        ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_) => {
            "this policy can never match; tools are called, resources read and subscribed to, prompts got, and both completed"
        }
        _ => "write names and texts in one script, without invisible characters",
    }
}

impl Parsed<'_> {
    fn problem(
        &self,
        annotation: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Problem {
        let offset = self.piece.offset + source::annotation_offset(self.piece.text, annotation);
        Problem::at(&self.place, offset, message, fix)
    }

    fn rule(self) -> Result<Rule, Problem> {
        const KNOWN: [&str; 7] = [
            "id", "effect", "agent", "operator", "rewrite", "matching", "with",
        ];
        if let Some((unknown, _)) = self
            .policy
            .annotations()
            .find(|(name, _)| !KNOWN.contains(name))
        {
            return Err(self.problem(
                unknown,
                format!("unknown annotation `@{unknown}`"),
                ANNOTATIONS,
            ));
        }
        if let Some(id) = self.policy.annotation("id").filter(|id| !is_id(id)) {
            let fix = "use up to 128 letters, digits and `-_./`; `no-permit` and `unreadable-question` are taken";
            return Err(self.problem(
                "id",
                format!("`{}` cannot be a policy id", id.escape_debug()),
                fix,
            ));
        }
        let (line, _) = self.place.line_column(self.piece.offset);
        let text = |name: &str| {
            self.policy
                .annotation(name)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let name = AsRef::<str>::as_ref(self.policy.id()).to_owned();
        let verdict = self.verdict(&name)?;
        let note = Note {
            policy: name,
            agent: text("agent"),
            operator: text("operator"),
            file: self.place.file.into(),
            line,
        };
        Rule::of(self.policy.clone(), verdict, note).map_err(|error| self.misused(error))
    }

    fn verdict(&self, name: &str) -> Result<Verdict, Problem> {
        let effect = self.policy.annotation("effect");
        let verdict = match (self.policy.effect(), effect) {
            (Effect::Permit, None | Some("allow")) => Verdict::Allow,
            (Effect::Permit, Some("endorse")) => Verdict::Endorse,
            (Effect::Permit, Some("ask")) => Verdict::Ask,
            (Effect::Permit, Some("rewrite")) => Verdict::Rewrite(self.rewrite(name)?),
            (Effect::Forbid, None | Some("block")) => Verdict::Block,
            (Effect::Permit, Some("block")) => {
                return Err(self.problem(
                    "effect",
                    "a `permit` policy cannot block",
                    "write `forbid`, or @effect(\"allow\"), \"endorse\", \"ask\" or \"rewrite\"",
                ));
            }
            (Effect::Forbid, Some("allow" | "endorse" | "ask" | "rewrite")) => {
                let fix = "write `permit` for allow, endorse, ask and rewrite; an ask beats an allow, so it narrows";
                return Err(self.problem("effect", "a `forbid` policy can only block", fix));
            }
            (_, Some(other)) => {
                let message = format!("unknown effect `{}`", other.escape_debug());
                return Err(self.problem(
                    "effect",
                    message,
                    "the effects are allow, endorse, ask, block and rewrite",
                ));
            }
        };
        for name in ["rewrite", "matching", "with"] {
            if self.policy.annotation(name).is_some() && !matches!(verdict, Verdict::Rewrite(_)) {
                let message = format!("`@{name}` on a policy that does not rewrite");
                return Err(self.problem(
                    name,
                    message,
                    "add @effect(\"rewrite\") to a permit policy, or take it away",
                ));
            }
        }
        Ok(verdict)
    }

    fn rewrite(&self, policy: &str) -> Result<RewriteOp, Problem> {
        let needed = |name: &str| {
            let fix = "a rewrite names an argument, what to match and what to put there: @rewrite(\"body\") @matching(\"…\") @with(\"…\")";
            self.policy
                .annotation(name)
                .ok_or_else(|| self.problem("effect", format!("the rewrite lacks `@{name}`"), fix))
        };
        let (path, matching, with) = (needed("rewrite")?, needed("matching")?, needed("with")?);
        let path = Path::parse(path).map_err(|error| {
            self.problem(
                "rewrite",
                format!("`{}` names no argument: {error}", path.escape_debug()),
                "for example `body` or `to[].email`",
            )
        })?;
        let expression = rewrite::expression(matching).map_err(|error| {
            self.problem(
                "matching",
                format!("not a regular expression: {error}"),
                "the syntax is that of the Rust regex crate",
            )
        })?;
        if let Some(group) = rewrite::missing_group(&expression, with) {
            let fix = "name a group of @matching, or write `$$` for a dollar sign";
            return Err(self.problem("with", format!("@matching has no group `{group}`"), fix));
        }
        Ok(RewriteOp::new(
            policy.to_owned(),
            path,
            expression,
            with.to_owned(),
        ))
    }

    fn misused(&self, error: RuleError) -> Problem {
        let (hint, message, fix) = match error {
            RuleError::Cedar(message) => (None, message, SEE_SCHEMA.to_owned()),
            RuleError::Misuse(Misuse::Computed) => (
                None,
                "arguments are read by a path that is computed".to_owned(),
                "write the path as a text: `context.arguments.getTag(\"title\")`".to_owned(),
            ),
            RuleError::Misuse(Misuse::BadPath { tag, error }) => {
                let message = format!("`{}` names no argument", tag.escape_debug());
                (Some(tag), message, error.to_string())
            }
            RuleError::Misuse(Misuse::WrongView { view, tag }) => {
                let message = format!("`context.{}` cannot read `{tag}`", view.attribute());
                let fix = match view {
                    View::Lists => "a path of `context.lists` holds `[]`: `to[]`, `rows[].id`",
                    _ => "`[]` stands for every element and belongs to `context.lists`",
                };
                (Some(tag), message, fix.to_owned())
            }
        };
        let within = hint
            .and_then(|tag| self.piece.text.find(&format!("\"{tag}\"")))
            .unwrap_or(0);
        Problem::at(&self.place, self.piece.offset + within, message, fix)
    }
}
