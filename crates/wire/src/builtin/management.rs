//! Rows of the tools that manage agents, workflows and their executions.

use super::{Executor, Family, Field, Kind, Tool, needs, takes};

const fn acts(name: &'static str) -> Tool {
    Tool::acts(name, Family::Management, Executor::Workflow)
}

const fn reads(name: &'static str) -> Tool {
    Tool::reads(name, Family::Management, Executor::Workflow)
}

/// Changes something, and is not put before a judge: what it says is a manifest or a signal and not an act.
const fn acts_unjudged(name: &'static str) -> Tool {
    Tool {
        skip_judge: true,
        ..acts(name)
    }
}
const EXECUTION: Field = needs("execution_id", Kind::Text, "The execution");
const FORCE: Field = takes(
    "force",
    Kind::Flag,
    "Whether a version that exists is replaced",
);
const LIMIT: Field = takes("limit", Kind::Whole, "How many at most");
const OFFSET: Field = takes("offset", Kind::Whole, "How many to leave out");
const MANIFEST: Field = needs("manifest_yaml", Kind::Text, "The manifest, as YAML");
const ATTACHMENTS: Field = takes("attachments", Kind::Objects, "Files that go with it");
const INPUT: Field = takes("input", Kind::Any, "What it works on");
const INTENT: Field = takes("intent", Kind::Text, "What it is for");
const VERSION: Field = takes(
    "version",
    Kind::Text,
    "Which version; the newest if not said",
);
const POLL: Field = takes("poll_interval_seconds", Kind::Whole, "How often to look");
const TIMEOUT: Field = takes("timeout_seconds", Kind::Whole, "How long to wait");
const MIN_SCORE: Field = takes(
    "min_score",
    Kind::Number,
    "How alike they must be; 0.3 if not said",
);
const LABELS: Field = takes("labels", Kind::Object, "Labels they must have");
const QUERY: Field = needs("query", Kind::Text, "What to look for");
const TEN: Field = takes("limit", Kind::Whole, "How many at most; 10 if not said");

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        input: &[MANIFEST, FORCE],
        says: "Registers an agent",
        ..acts_unjudged("aegis.agent.create")
    },
    Tool {
        input: &[needs("agent_id", Kind::Text, "The agent")],
        says: "Removes an agent",
        ..acts_unjudged("aegis.agent.delete")
    },
    Tool {
        input: &[needs("name", Kind::Text, "The name or id of the agent")],
        says: "Shows the manifest of an agent",
        ..reads("aegis.agent.export")
    },
    Tool {
        input: &[
            needs("input", Kind::Any, "What the agent should do"),
            ATTACHMENTS,
        ],
        says: "Has an agent written",
        ..acts("aegis.agent.generate")
    },
    Tool {
        says: "Lists the agents",
        ..reads("aegis.agent.list")
    },
    Tool {
        input: &[needs("agent_id", Kind::Text, "The agent"), LIMIT, OFFSET],
        says: "Shows what an agent did",
        ..reads("aegis.agent.logs")
    },
    Tool {
        input: &[
            QUERY,
            TEN,
            MIN_SCORE,
            LABELS,
            takes("status", Kind::Text, "The state they must be in"),
        ],
        says: "Finds agents by what they do",
        ..reads("aegis.agent.search")
    },
    Tool {
        input: &[MANIFEST, FORCE],
        says: "Replaces the manifest of an agent",
        ..acts_unjudged("aegis.agent.update")
    },
    Tool {
        input: &[needs("prompt", Kind::Text, "What to do")],
        says: "Does what a text says",
        ..acts("aegis.execute")
    },
    Tool {
        input: &[
            needs("intent", Kind::Text, "What to do"),
            takes("inputs", Kind::Object, "What it works on"),
            takes("volume_id", Kind::Text, "The volume it works on"),
            takes(
                "language",
                Kind::Choice(&["python", "javascript", "bash"]),
                "The language of the program",
            ),
            takes(
                "timeout_seconds",
                Kind::Whole,
                "How many seconds it may take",
            ),
            ATTACHMENTS,
        ],
        says: "Writes a program for an intent and runs it",
        ..acts("aegis.execute.intent")
    },
    Tool {
        input: &[needs("pipeline_execution_id", Kind::Text, "The execution")],
        says: "Shows how far an intent has come",
        ..reads("aegis.execute.status")
    },
    Tool {
        input: &[takes("language", Kind::Text, "Only those of this language")],
        says: "Lists the runtimes for agents",
        ..reads("aegis.runtime.list")
    },
    Tool {
        input: &[needs(
            "key",
            Kind::Text,
            "Which schema, for instance `agent/manifest/v1`",
        )],
        says: "Shows the schema of a manifest",
        ..reads("aegis.schema.get")
    },
    Tool {
        input: &[
            needs(
                "kind",
                Kind::Choice(&["agent", "workflow"]),
                "What it is a manifest of",
            ),
            MANIFEST,
        ],
        says: "Checks a manifest",
        ..reads("aegis.schema.validate")
    },
    Tool {
        says: "Shows the configuration of the node",
        ..reads("aegis.system.config")
    },
    Tool {
        says: "Shows the version and the state of the node",
        ..reads("aegis.system.info")
    },
    Tool {
        input: &[EXECUTION],
        says: "Cancels an execution",
        ..acts("aegis.task.cancel")
    },
    Tool {
        input: &[
            needs("agent_id", Kind::Text, "The id or name of the agent"),
            INPUT,
            INTENT,
            VERSION,
            ATTACHMENTS,
        ],
        says: "Starts an agent",
        ..acts("aegis.task.execute")
    },
    Tool {
        input: &[
            takes("agent_id", Kind::Text, "Only those of this agent"),
            takes("limit", Kind::Whole, "How many at most; 20 if not said"),
        ],
        says: "Lists executions",
        ..reads("aegis.task.list")
    },
    Tool {
        input: &[EXECUTION, LIMIT, OFFSET],
        says: "Shows what an execution did",
        ..reads("aegis.task.logs")
    },
    Tool {
        input: &[EXECUTION],
        says: "Removes an execution that has ended",
        ..acts("aegis.task.remove")
    },
    Tool {
        input: &[EXECUTION],
        says: "Shows how far an execution has come",
        ..reads("aegis.task.status")
    },
    Tool {
        aliases: &["aegis.agent.wait"],
        input: &[EXECUTION, POLL, TIMEOUT],
        says: "Waits until an execution has ended",
        ..reads("aegis.task.wait")
    },
    Tool {
        input: &[
            LIMIT,
            OFFSET,
            takes("source", Kind::Text, "Only those from there"),
            takes("category", Kind::Text, "Only those of this kind"),
        ],
        says: "Lists the tools",
        ..reads("aegis.tools.list")
    },
    Tool {
        input: &[takes("query", Kind::Text, "What to look for")],
        says: "Finds tools by what they do",
        ..reads("aegis.tools.search")
    },
    Tool {
        input: &[EXECUTION],
        says: "Cancels the execution of a workflow",
        ..acts_unjudged("aegis.workflow.cancel")
    },
    Tool {
        input: &[
            MANIFEST,
            FORCE,
            takes("task_context", Kind::Text, "What it is for"),
            takes("judge_agents", Kind::Texts, "The agents that judge it"),
            takes(
                "min_score",
                Kind::Number,
                "The score it needs; 0.8 if not said",
            ),
            takes(
                "min_confidence",
                Kind::Number,
                "The confidence it needs; 0.7 if not said",
            ),
        ],
        says: "Registers a workflow",
        ..acts_unjudged("aegis.workflow.create")
    },
    Tool {
        input: &[needs("name", Kind::Text, "The workflow")],
        says: "Removes a workflow",
        ..acts("aegis.workflow.delete")
    },
    Tool {
        input: &[
            takes("name", Kind::Text, "The workflow"),
            takes(
                "target_scope",
                Kind::Text,
                "Who sees it then; the tenant if not said",
            ),
            takes("user_id", Kind::Text, "The user it is for then"),
        ],
        says: "Shows a workflow to fewer people",
        ..acts("aegis.workflow.demote")
    },
    Tool {
        input: &[EXECUTION],
        says: "Shows one execution of a workflow",
        ..reads("aegis.workflow.executions.get")
    },
    Tool {
        input: &[
            LIMIT,
            OFFSET,
            takes("workflow_id", Kind::Text, "Only those of this workflow"),
        ],
        says: "Lists executions of workflows",
        ..reads("aegis.workflow.executions.list")
    },
    Tool {
        input: &[needs("name", Kind::Text, "The workflow")],
        says: "Shows the manifest of a workflow",
        ..reads("aegis.workflow.export")
    },
    Tool {
        input: &[needs("input", Kind::Any, "What the workflow should do")],
        says: "Has a workflow written",
        ..acts("aegis.workflow.generate")
    },
    Tool {
        input: &[takes(
            "scope",
            Kind::Choice(&["global", "visible"]),
            "Which ones",
        )],
        says: "Lists the workflows",
        ..reads("aegis.workflow.list")
    },
    Tool {
        input: &[EXECUTION, LIMIT, OFFSET],
        says: "Shows what an execution of a workflow did",
        ..reads("aegis.workflow.logs")
    },
    Tool {
        input: &[
            takes("name", Kind::Text, "The workflow"),
            takes(
                "target_scope",
                Kind::Text,
                "Who sees it then; everybody if not said",
            ),
            takes("user_id", Kind::Text, "The user it was for"),
        ],
        says: "Shows a workflow to more people",
        ..acts("aegis.workflow.promote")
    },
    Tool {
        input: &[EXECUTION],
        says: "Removes an execution of a workflow that has ended",
        ..acts_unjudged("aegis.workflow.remove")
    },
    Tool {
        input: &[
            needs("name", Kind::Text, "The workflow"),
            INPUT,
            INTENT,
            takes("blackboard", Kind::Object, "What its states share"),
            VERSION,
        ],
        says: "Starts a workflow",
        ..acts("aegis.workflow.run")
    },
    Tool {
        input: &[QUERY, TEN, MIN_SCORE, LABELS],
        says: "Finds workflows by what they do",
        ..reads("aegis.workflow.search")
    },
    Tool {
        input: &[EXECUTION, needs("response", Kind::Any, "The answer")],
        says: "Answers a workflow that waits for a person",
        ..acts_unjudged("aegis.workflow.signal")
    },
    Tool {
        input: &[EXECUTION],
        says: "Shows how far a workflow has come",
        ..reads("aegis.workflow.status")
    },
    Tool {
        input: &[MANIFEST, FORCE],
        says: "Replaces the manifest of a workflow",
        ..acts_unjudged("aegis.workflow.update")
    },
    Tool {
        input: &[takes("manifest_yaml", Kind::Text, "The manifest, as YAML")],
        says: "Checks the manifest of a workflow",
        ..reads("aegis.workflow.validate")
    },
    Tool {
        aliases: &["aegis.execute.wait"],
        input: &[EXECUTION, POLL, TIMEOUT],
        says: "Waits until a workflow has ended",
        ..reads("aegis.workflow.wait")
    },
];
