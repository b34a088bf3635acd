//! `context list|add|use|show`: the clusters of the config file.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};

use crate::cli::args::{OutputArgs, not_empty};
use crate::cli::cluster_contexts::ConfigHome;
use crate::cli::command_context::CommandContext;
use crate::cli::env::Variable;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{key_values, table};
use nomad_csi_client::files::{ClusterContext, NewContext};
use nomad_csi_client::ports::Document;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{SecretRef, one_line};

/// The subcommands of `context`.
#[derive(Subcommand, Debug)]
pub(crate) enum ContextCommand {
    /// List the clusters of the config file
    #[command(after_long_help = "Example:\n  nomad-csi context list")]
    #[command(aliases = ["ls", "status"])]
    List(OutputArgs),
    /// Add a cluster to the config file
    ///
    /// The flags of the server become the settings of the context: `--address`, `--region`, `--namespace`, the
    /// certificates and `--policy`. What the file has stays as it is. The file never contains a token, only where it is.
    #[command(
        after_long_help = "Example:\n  nomad-csi context add production --address https://nomad.example:4646 --token-env PROD_TOKEN"
    )]
    Add(ContextAddArgs),
    /// Set the default cluster; flags and environment variables override it
    #[command(
        after_long_help = "Examples:\n  nomad-csi context use production\n  nomad-csi context use --none"
    )]
    Use(ContextUseArgs),
    /// Show a cluster of the config file without its token
    #[command(after_long_help = "Example:\n  nomad-csi context show production")]
    #[command(aliases = ["get", "describe"])]
    Show(ContextShowArgs),
}

/// Arguments of `context add`.
#[derive(Args, Debug)]
pub(crate) struct ContextAddArgs {
    /// Name of the context
    #[arg(value_name = "NAME", value_parser = not_empty())]
    pub name: String,
    /// Environment variable that has the token
    #[arg(long, value_name = "VARIABLE", value_parser = not_empty())]
    pub token_env: Option<String>,
    /// File that has the token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    /// Make it the default cluster, as `context use` does
    #[arg(long = "use")]
    pub becomes_default: bool,
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
    /// Name of the context [default: that of NOMAD_CSI_CONTEXT, or the default cluster]
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
    let home = ConfigHome::of(&context.global, &context.environment, &context.directory)?;
    match command {
        ContextCommand::List(arguments) => list(context, &home, arguments),
        ContextCommand::Add(arguments) => add(context, &home, arguments),
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

fn add(
    context: &CommandContext,
    home: &ConfigHome,
    arguments: &ContextAddArgs,
) -> Result<Exit, CliError> {
    let global = &context.global;
    let cannot = |why: &str| {
        let message = format!("cannot add context `{}`: {why}", one_line(&arguments.name));
        Diagnostic::error(Code::CliInvalidValue, message)
    };
    let Some(address) = global.address.clone() else {
        return Err(cannot("it has no address").help("add `--address URL`").into());
    };
    if global.token.is_some() {
        let help = "name where the token is, with `--token-env VARIABLE` or `--token-file FILE`";
        return Err(cannot("the config file cannot contain a token").help(help).into());
    }
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| context.directory.join(path));
    let policy = match global.policy.as_slice() {
        [] => None,
        [one] => path(&Some(one.clone())),
        _ => return Err(cannot("a context has one policy").help("give `--policy` once").into()),
    };
    let added = NewContext {
        address,
        region: global.region.clone(),
        namespace: global.namespace.clone(),
        token_env: arguments.token_env.clone(),
        token_file: path(&arguments.token_file),
        ca_cert: path(&global.ca_cert),
        ca_path: path(&global.ca_path),
        client_cert: path(&global.client_cert),
        client_key: path(&global.client_key),
        tls_server_name: global.tls_server_name.clone(),
        tls_skip_verify: global.tls_skip_verify,
        policy,
    };
    home.add(&arguments.name, &added)?;
    let (name, config) = (one_line(&arguments.name), home.config().display());
    context.printer.print_status(&format!("added context `{name}` to `{config}`"));
    if arguments.becomes_default {
        let name = Some(arguments.name.clone());
        return choose(context, home, &ContextUseArgs { name, none: false });
    }
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
    let variable = context.environment.text(Variable::Context)?.map(str::to_owned);
    let typed = arguments.name.clone().or(context.global.context.clone()).or(variable);
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
