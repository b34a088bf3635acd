//! `acl bootstrap` and `acl token`.

use super::args::{AclOutputArgs, TokenCommand, TokenCreateArgs, TokenType, TokenUpdateArgs};
use crate::cli::args::OutputArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{one_line, token_detail, token_list};
use nomad_csi_client::ports::{ClusterApi, Document, WithDocument};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_wire::{DurationDocument, TokenDocument, TokenSecret};

pub(super) async fn bootstrap(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &AclOutputArgs,
) -> Result<Exit, CliError> {
    print(context, &arguments.output, &api.bootstrap_acl().await?)
}

pub(super) async fn manage(
    context: &CommandContext,
    api: &dyn ClusterApi,
    command: &TokenCommand,
) -> Result<Exit, CliError> {
    match command {
        TokenCommand::Create(arguments) => {
            let token = api.create_token(&new_token(arguments)).await?;
            print(context, &arguments.output, &token)
        }
        TokenCommand::List(arguments) => list(context, api, arguments).await,
        TokenCommand::Show(arguments) => {
            let token = existing(api, &arguments.accessor).await?;
            print(context, &arguments.output, &token)
        }
        TokenCommand::Own(arguments) => {
            let mut own = api.read_own_token().await?;
            // Logs of pipelines are kept, and its bearer has the secret already.
            own.value.secret_id = TokenSecret::default();
            own.document = Document::of(&own.value);
            print(context, &arguments.output, &own)
        }
        TokenCommand::Update(arguments) => {
            let before = existing(api, &arguments.accessor).await?;
            let token = api.update_token(&updated(before.value, arguments)).await?;
            print(context, &arguments.output, &token)
        }
        TokenCommand::Delete(arguments) => {
            api.delete_token(&arguments.accessor).await?;
            let line = format!("token {}: deleted", one_line(&arguments.accessor));
            context.printer.print_status(&line);
            Ok(Exit::Done)
        }
    }
}

async fn list(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &AclOutputArgs,
) -> Result<Exit, CliError> {
    let listed = api.list_tokens().await?;
    let (tokens, documents): (Vec<_>, Vec<_>) =
        listed.into_iter().map(|reading| (reading.value, reading.document)).unzip();
    let text = arguments.output.output.render_list(&documents)?;
    let text = text.unwrap_or_else(|| token_list(&tokens, &context.time_reference()));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

async fn existing(
    api: &dyn ClusterApi,
    accessor: &str,
) -> Result<WithDocument<TokenDocument>, CliError> {
    let found = api.read_token(accessor).await?;
    Ok(found.ok_or_else(|| {
        let code = Code::AclTokenNotFound;
        let message = format!("no token has the accessor ID `{}`", one_line(accessor));
        Diagnostic::error(code, message).help(code.advice())
    })?)
}

fn print(
    context: &CommandContext,
    output: &OutputArgs,
    token: &WithDocument<TokenDocument>,
) -> Result<Exit, CliError> {
    let text = output.output.render_one(&token.document)?;
    let text = text.unwrap_or_else(|| token_detail(&token.value, &context.time_reference()));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

fn word(kind: TokenType) -> String {
    match kind {
        TokenType::Client => "client".to_owned(),
        TokenType::Management => "management".to_owned(),
    }
}

fn new_token(arguments: &TokenCreateArgs) -> TokenDocument {
    TokenDocument {
        name: arguments.name.clone(),
        kind: word(arguments.kind),
        policies: (!arguments.policies.is_empty()).then(|| arguments.policies.clone()),
        global: arguments.global,
        expiration_ttl: arguments.ttl.clone().map(DurationDocument::Text),
        ..TokenDocument::default()
    }
}

/// What is not given stays. A token that gets to manage the cluster loses its policies.
fn updated(before: TokenDocument, arguments: &TokenUpdateArgs) -> TokenDocument {
    let kind = arguments.kind.map_or(before.kind, word);
    let policies = match (kind.as_str(), arguments.policies.is_empty()) {
        ("management", true) => None,
        (_, true) => before.policies,
        (_, false) => Some(arguments.policies.clone()),
    };
    TokenDocument {
        accessor_id: before.accessor_id,
        name: arguments.name.clone().unwrap_or(before.name),
        kind,
        policies,
        ..TokenDocument::default()
    }
}
