//! `context list|use|show`: the clusters of the config file.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::args::OutputArgs;
use crate::cli::cluster_contexts::ConfigHome;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{key_values, table};
use nomad_csi_client::files::ClusterContext;
use nomad_csi_client::ports::Document;
use nomad_csi_model::SecretRef;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// The subcommands of `context`.
#[derive(Subcommand, Debug)]
pub(crate) enum ContextCommand {
    /// List the clusters of the config file
    #[command(after_long_help = "Example:\n  nomad-csi context list")]
    List(OutputArgs),
    /// Set the default cluster; flags and environment variables override it
    #[command(
        after_long_help = "Examples:\n  nomad-csi context use production\n  nomad-csi context use --none"
    )]
    Use(ContextUseArgs),
    /// Show a cluster of the config file without its token
    #[command(after_long_help = "Example:\n  nomad-csi context show production")]
    Show(ContextShowArgs),
}

/// Arguments of `context use`.
#[derive(Args, Debug)]
pub(crate) struct ContextUseArgs {
    /// Name of the context
    #[arg(value_name = "NAME", required_unless_present = "none")]
    pub name: Option<String>,
    /// Unset the default cluster
    #[arg(long, conflicts_with = "name")]
    pub none: bool,
}

/// Arguments of `context show`.
#[derive(Args, Debug)]
pub(crate) struct ContextShowArgs {
    /// Name of the context [default: the default cluster]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Shows and selects contexts. Contacts no server and looks up no token.
///
/// # Errors
/// If the config file is invalid, or does not have the context.
pub(crate) fn manage_contexts(
    context: &CommandContext,
    command: &ContextCommand,
) -> Result<Exit, CliError> {
    let home = ConfigHome::of(&context.environment)?;
    match command {
        ContextCommand::List(arguments) => list(context, &home, arguments),
        ContextCommand::Use(arguments) => choose(context, &home, arguments),
        ContextCommand::Show(arguments) => show(context, &home, arguments),
    }
}

fn list(
    context: &CommandContext,
    home: &ConfigHome,
    arguments: &OutputArgs,
) -> Result<Exit, CliError> {
    let (contexts, _) = home.contexts()?;
    let chosen = home.selected_name()?;
    let is_chosen = |name: &String| chosen.as_ref() == Some(name);
    let documents = contexts.iter().map(|(name, cluster)| document(name, cluster, is_chosen(name)));
    let documents: Vec<_> = documents.collect();
    if let Some(text) = arguments.output.render_list(&documents)? {
        context.printer.print_result(&text);
        return Ok(Exit::Done);
    }
    if contexts.is_empty() {
        let config = home.config();
        context.printer.print_status(&format!("no contexts in `{}`", config.display()));
        return Ok(Exit::Done);
    }
    let rows = contexts.iter().map(|(name, cluster)| {
        [
            name.clone(),
            if is_chosen(name) { "yes" } else { "no" }.to_owned(),
            cluster.address.clone(),
            cluster.namespace.clone().unwrap_or_default(),
            cluster.region.clone().unwrap_or_default(),
            token(cluster),
        ]
    });
    let headings = ["Name", "Chosen", "Address", "Namespace", "Region", "Token"];
    context.printer.print_result(&table(headings, rows));
    Ok(Exit::Done)
}

fn choose(
    context: &CommandContext,
    home: &ConfigHome,
    arguments: &ContextUseArgs,
) -> Result<Exit, CliError> {
    if let Some(name) = &arguments.name {
        home.context(name)?;
    }
    home.select(arguments.name.as_deref())?;
    context.printer.print_status(&match &arguments.name {
        Some(name) => format!(
            "context `{name}` is now the default; flags and environment variables override it"
        ),
        None => "no context is the default now".to_owned(),
    });
    Ok(Exit::Done)
}

fn show(
    context: &CommandContext,
    home: &ConfigHome,
    arguments: &ContextShowArgs,
) -> Result<Exit, CliError> {
    let typed = arguments.name.clone().or(context.global.context.clone());
    let chosen = home.selected_name()?;
    let Some(name) = typed.or_else(|| chosen.clone()) else {
        return Err(Diagnostic::error(Code::ConfigNoContext, "no context is selected")
            .help("choose one with `nomad-csi context use NAME`, or name one here")
            .into());
    };
    let (cluster, _) = home.context(&name)?;
    let is_chosen = chosen.as_ref() == Some(&name);
    let text = arguments
        .output
        .output
        .render_one(&document(&name, &cluster, is_chosen))?
        .unwrap_or_else(|| detail(&name, &cluster, is_chosen));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

/// Returns where the token is, never the token.
fn token(cluster: &ClusterContext) -> String {
    match &cluster.token {
        Some((SecretRef::Env(name), _)) => format!("variable {name}"),
        Some((SecretRef::File(path), _)) => format!("file {path}"),
        Some((SecretRef::Literal(_) | SecretRef::Evaluated(_) | SecretRef::NomadVar { .. }, _))
        | None => String::new(),
    }
}

fn detail(name: &str, cluster: &ClusterContext, is_chosen: bool) -> String {
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    key_values([
        ("Name", name.to_owned()),
        ("Chosen", is_chosen.to_string()),
        ("Address", cluster.address.clone()),
        ("Region", text(&cluster.region)),
        ("Namespace", text(&cluster.namespace)),
        ("Token", token(cluster)),
        ("CA Certificate", path(&cluster.ca_cert)),
        ("CA Directory", path(&cluster.ca_path)),
        ("Client Certificate", path(&cluster.client_cert)),
        ("Client Key", path(&cluster.client_key)),
        ("TLS Server Name", text(&cluster.tls_server_name)),
        ("TLS Skip Verify", cluster.tls_skip_verify.unwrap_or(false).to_string()),
        ("Policy", path(&cluster.policy)),
    ])
}

fn document(name: &str, cluster: &ClusterContext, is_chosen: bool) -> Document {
    let token = cluster.token.as_ref().map(|(reference, _)| match reference {
        SecretRef::Env(name) => json!({ "env": name }),
        SecretRef::File(path) => json!({ "file": path }),
        SecretRef::Literal(_) | SecretRef::Evaluated(_) | SecretRef::NomadVar { .. } => Value::Null,
    });
    Document::of(&json!({
        "ID": name,
        "chosen": is_chosen,
        "address": cluster.address,
        "region": cluster.region,
        "namespace": cluster.namespace,
        "token": token,
        "ca_cert": cluster.ca_cert,
        "ca_path": cluster.ca_path,
        "client_cert": cluster.client_cert,
        "client_key": cluster.client_key,
        "tls_server_name": cluster.tls_server_name,
        "tls_skip_verify": cluster.tls_skip_verify,
        "policy": cluster.policy,
    }))
}
