//! The file a new home starts with.

use std::path::Path;

use super::edit::yaml_scalar;

/// A commented `portcullis.yaml` with the two demo servers, which this program plays itself.
#[must_use]
pub fn default_file(executable: &Path) -> String {
    let program = yaml_scalar(&executable.to_string_lossy());
    format!(
        "\
# Portcullis. Every key is explained in docs/use/config.md; `portcullis config check` finds mistakes,
# `portcullis config explain` shows what is in force. Changes are picked up while the gate runs.

# listen: 127.0.0.1:7878

mcp_servers:
  # Two servers that need nothing installed, to try the gate with: `portcullis demo`.
  # Remove them with `portcullis servers remove demo-notes` and `portcullis servers remove demo-web`.
  demo-notes:
    command: {program}
    args: [demo-server, notes]
    classification: CONFIDENTIAL   # what it returns is confidential, and confidential data may go to it
    open_world: false              # you wrote the notes; without this a server's words count as a stranger's

  demo-web:
    command: {program}
    args: [demo-server, web]
    classification: PUBLIC         # a session that has read something confidential may not write here
    tools:
      post_message: {{ open_world: false }}   # what it answers are its own words; pages are anyone's

  # Yours. A server without a classification is connected but cannot be called.
  #
  # github:
  #   command: npx
  #   args: [\"-y\", \"@modelcontextprotocol/server-github\"]
  #   env:
  #     GITHUB_PERSONAL_ACCESS_TOKEN: keychain:github-pat   # store it with: portcullis secret set github-pat
  #   classification: CONFIDENTIAL   # strangers write issues: it stays open, `open_world: true`
  #   tools:
  #     delete_repository: blocked
  #
  # search:
  #   url: https://mcp.example.com/mcp
  #   bearer: env:SEARCH_TOKEN
  #   classification: PUBLIC
"
    )
}
