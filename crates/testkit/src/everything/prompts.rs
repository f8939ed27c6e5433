//! The prompts, and completion of their arguments.

use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Prompt, PromptArgument, PromptMessage, ResourceContents,
    Role,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::json;

use super::ask::{self, Gathered, Question};
use super::resources::PIXEL_PNG;
use super::world::World;

/// Values offered when a prompt or template argument is completed.
const COMPLETIONS: [&str; 6] = ["paris", "park", "party", "test", "testing", "tested"];

pub(super) fn list(world: &World) -> Vec<Prompt> {
    let argument = |name: &str, about: &str| {
        PromptArgument::new(name)
            .with_description(about)
            .with_required(true)
    };
    let mut prompts = vec![
        Prompt::new(
            "test_input_required_result_prompt",
            Some("Asks for a context before it answers"),
            None,
        ),
        Prompt::new(
            "test_prompt_with_arguments",
            Some("Repeats its two arguments"),
            Some(vec![
                argument("arg1", "First value to repeat"),
                argument("arg2", "Second value to repeat"),
            ]),
        ),
        Prompt::new(
            "test_prompt_with_embedded_resource",
            Some("Embeds the named resource"),
            Some(vec![argument(
                "resourceUri",
                "URI of the resource to embed",
            )]),
        ),
        Prompt::new(
            "test_prompt_with_image",
            Some("Carries a one-pixel image"),
            None,
        ),
        Prompt::new("test_simple_prompt", Some("One fixed message"), None),
    ];
    prompts.extend(
        world
            .added_prompts()
            .into_iter()
            .map(|name| Prompt::new(name, Some("Added while running"), None)),
    );
    prompts
}

pub(super) async fn get(
    world: &World,
    params: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let messages = match params.name.as_str() {
        "test_simple_prompt" => vec![user_text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument(params, "arg1")?, argument(params, "arg2")?);
            vec![user_text(format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => {
            let uri = argument(params, "resourceUri")?;
            let contents = ResourceContents::text("Embedded resource content for testing.", uri);
            vec![
                user(ContentBlock::resource(contents)),
                user_text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => {
            vec![
                user(ContentBlock::image(PIXEL_PNG, "image/png")),
                user_text("Please analyze the image above."),
            ]
        }
        "test_input_required_result_prompt" => {
            let schema = json!({
                "type": "object",
                "properties": {"context": {"type": "string"}},
                "required": ["context"],
            });
            let question = Question::form(
                "user_context",
                "What context should the prompt use?",
                schema,
            )?;
            match ask::gather(
                context,
                params.input_responses.as_ref(),
                vec![question],
                None,
            )
            .await?
            {
                Gathered::Pending(result) => return Ok(result.into()),
                Gathered::Answers(answers) => {
                    vec![user_text(format!("Use this context: {}", json!(answers)))]
                }
            }
        }
        name if world.added_prompts().iter().any(|added| added == name) => {
            vec![user_text(format!("I am {name}."))]
        }
        name => {
            let data = json!({"name": name});
            return Err(ErrorData::invalid_params(
                format!("no prompt is called '{name}'"),
                Some(data),
            ));
        }
    };
    Ok(GetPromptResult::new(messages).into())
}

pub(super) fn complete(params: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let typed = params.argument.value.as_str();
    let values = COMPLETIONS
        .iter()
        .filter(|value| value.starts_with(typed))
        .map(|value| (*value).to_owned())
        .collect();
    let info = CompletionInfo::with_all_values(values)
        .map_err(|error| ErrorData::internal_error(error, None))?;
    Ok(CompleteResult::new(info))
}

fn argument<'a>(params: &'a GetPromptRequestParams, name: &str) -> Result<&'a str, ErrorData> {
    params
        .arguments
        .as_ref()
        .and_then(|arguments| arguments.get(name))
        .and_then(serde_json::Value::as_str)
        .ok_or_else(|| {
            ErrorData::invalid_params(format!("prompt argument '{name}' is required"), None)
        })
}

fn user(content: ContentBlock) -> PromptMessage {
    PromptMessage::new(Role::User, content)
}

fn user_text(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}
