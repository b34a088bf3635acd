//! `import`: writes existing volumes as specifications, and records them in a set if one is named.
//!
//! Nothing changes on the server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::args::{LedgerArgs, ParallelismArgs, SpecSyntax};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::required_ledger;
use crate::cli::ui::{import_summary, one_line, volume_count};
use nomad_csi_client::files;
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_client::reconcile::workflow::{
    Registrations, SetSelection, find_registrations, import_into_set,
};
use nomad_csi_client::reconcile::{ImportFound, ImportSelection, find_to_import};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, ExternalId, ExternalVolume, Namespace, NamespacedId,
    PluginId, SetName, UnresolvedRequest, VolumeId,
};
use nomad_csi_spec::{
    Syntax, WritableSpec, encode_all, encode_file, read_terraform_state, removed_blocks,
};

/// Arguments of `import`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["ids", "all", "external", "from_tfstate"]))]
pub(crate) struct ImportArgs {
    /// Exact IDs of the volumes
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Import every volume of the namespace, or of all namespaces (`--namespace '*'`)
    #[arg(long)]
    pub all: bool,
    /// Import an unregistered volume of the plugin's provider
    #[arg(long, num_args = 2, value_names = ["PLUGIN", "EXTERNAL_ID"])]
    pub external: Vec<String>,
    /// Import the volumes of a Terraform state without a server
    ///
    /// Secrets are not copied. Prints the `removed` blocks that make Terraform forget the volumes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["set"])]
    pub from_tfstate: Option<PathBuf>,
    /// ID in the specification [default: the external ID]
    #[arg(long, value_name = "ID", requires = "external")]
    pub id: Option<String>,
    /// Write a specification although the volume is registered already; the ID in the specification
    #[arg(long, value_name = "[NAMESPACE/]ID", requires = "external")]
    pub share: Option<String>,
    /// Set that takes ownership of the volumes
    #[arg(long, value_name = "NAME", conflicts_with = "external")]
    pub set: Option<SetName>,
    /// The files that an import writes.
    #[command(flatten)]
    pub output: ImportOutputArgs,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
}

/// The files that an import writes.
#[derive(Args, Debug)]
pub(crate) struct ImportOutputArgs {
    /// Directory to write one file per volume in
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "file")]
    pub directory: Option<PathBuf>,
    /// File to write all volumes to [default: standard output]
    #[arg(long = "out", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Syntax to write [default: by the file's extension, else hcl]
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// Imports volumes.
///
/// # Errors
/// If the server cannot be read, a volume does not exist, a file exists already, or the ledger cannot
/// be written.
pub(crate) async fn import_existing(
    context: &CommandContext,
    arguments: &ImportArgs,
) -> Result<Exit, CliError> {
    if let Some(file) = &arguments.from_tfstate {
        return import_terraform(context, arguments, file);
    }
    context
        .with_cluster(async |cluster| match &arguments.external[..] {
            [plugin, external] => {
                import_external(context, cluster, arguments, plugin, external).await
            }
            _ => import_registered(context, cluster, arguments).await,
        })
        .await
}

async fn import_registered(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    arguments: &ImportArgs,
) -> Result<Exit, CliError> {
    let namespace = context.namespace()?.unwrap_or_default();
    let selection = if arguments.all {
        ImportSelection::All(namespace)
    } else {
        let ids = arguments.ids.iter();
        let key = |id: &String| NamespacedId::new(namespace.clone(), VolumeId::new(id));
        ImportSelection::Volumes(ids.map(key).collect())
    };
    let parallelism = arguments.parallelism.parallelism;
    let workflow = context.workflow(cluster, "import", parallelism);
    let reading = find_to_import(cluster, &selection, workflow.parallelism);
    let found = workflow.unless_interrupted(reading).await??;
    if !found.missing.is_empty() {
        return Err(not_found(&found.missing).into());
    }
    let specs = found.volumes.iter().map(|one| one.written.clone());
    let specs: Vec<WritableSpec> = specs.collect();
    match &arguments.set {
        Some(set) => {
            let selection = SetSelection {
                access: required_ledger(context, &arguments.ledger, cluster)?,
                name: set.clone(),
            };
            let write = || Ok(write_specifications(context, arguments, &specs)?);
            import_into_set(&workflow, &selection, &found.volumes, write).await?;
        }
        None => write_specifications(context, arguments, &specs)?,
    }
    print_summary(context, arguments, &found);
    if found.left_out.is_empty() {
        return Ok(Exit::Done);
    }
    let left_out: Diagnostics = found.left_out.into_iter().collect();
    context.print_diagnostics(&left_out, &SourceMap::default());
    Ok(Exit::Error)
}

fn not_found(keys: &[NamespacedId]) -> Diagnostics {
    let problem = |key: &NamespacedId| {
        let message = format!("volume {} does not exist", one_line(&key.quoted()));
        Diagnostic::error(Code::VolumeNotFound, message).help(Code::VolumeNotFound.advice())
    };
    keys.iter().map(problem).collect()
}

fn print_summary(context: &CommandContext, arguments: &ImportArgs, found: &ImportFound) {
    context.printer.print_lines(&import_summary(found));
    if arguments.set.is_none() && !found.volumes.is_empty() {
        let line =
            "No set was named, so no set took the volumes; `--set NAME` adds and protects them.";
        context.printer.print_status(line);
    }
    let warnings: Diagnostics = found.warnings.iter().cloned().collect();
    context.print_diagnostics(&warnings, &SourceMap::default());
}

/// Writes a specification that registers an orphan.
async fn import_external(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    arguments: &ImportArgs,
    plugin: &str,
    external: &str,
) -> Result<Exit, CliError> {
    let (plugin, external) = (PluginId::new(plugin), ExternalId::new(external));
    let namespace = Namespace::default();
    let listing = cluster.list_external_volumes(&plugin, &namespace);
    let listed = context.interrupts.unless_interrupted(listing).await??;
    let Some(volume) = listed.into_iter().find(|one| one.external_id == external) else {
        let message = format!(
            "the provider of plugin `{plugin}` lists no volume `{}`",
            one_line(external.as_str())
        );
        return Err(Diagnostic::error(Code::VolumeNotFound, message)
            .help("check the external ID: the provider assigns it")
            .into());
    };
    let namespace = context.namespace()?.unwrap_or_default();
    let id = arguments.id.as_deref().unwrap_or(external.as_str());
    let workflow = context.workflow(cluster, "import", 1);
    let key = NamespacedId::new(namespace.clone(), VolumeId::new(id));
    let found = find_registrations(&workflow, &plugin, &external).await?;
    let may_share = arguments.share.as_deref().is_some_and(|name| key.is_named(name));
    if !found.keys.is_empty() && !may_share {
        return Err(registered_already(&found.keys, &plugin, &external, &key).into());
    }
    let spec = registration(&volume, plugin, namespace, id, &found);
    write_specifications(context, arguments, &[spec])?;
    context.printer.print_status(
        "The capability of the volume is unknown: correct `capability`, then run `nomad-csi plan`.",
    );
    Ok(Exit::Done)
}

/// Refuses to write a second registration of data that the server has registered.
fn registered_already(
    others: &[NamespacedId],
    plugin: &PluginId,
    external: &ExternalId,
    key: &NamespacedId,
) -> Diagnostic {
    let message = format!(
        "cannot import volume `{}` of plugin `{plugin}`: it is registered already",
        one_line(external.as_str())
    );
    let mut problem = Diagnostic::error(Code::VolumeShared, message);
    for other in others {
        problem = problem.note(format!("volume {} has this external ID", other.quoted()));
    }
    problem
        .note("two registrations of the same data can be written at the same time, whatever their capabilities allow")
        .help("import the registered volume by its ID: `nomad-csi import ID`")
        .help(format!(
            "if the storage is made for that, such as an NFS export, add `--share {}`",
            key.option()
        ))
}

fn registration(
    volume: &ExternalVolume,
    plugin_id: PluginId,
    namespace: Namespace,
    id: &str,
    found: &Registrations,
) -> WritableSpec {
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    let key = NamespacedId::new(namespace, VolumeId::new(id));
    let request = UnresolvedRequest {
        name: Some(id.to_owned()),
        external_id: Some(volume.external_id.clone()),
        context: (!volume.context.is_empty()).then(|| volume.context.clone()),
        ..UnresolvedRequest::new(key, plugin_id, vec![capability])
    };
    let size = match volume.capacity.is_zero() {
        true => "unknown size".to_owned(),
        false => volume.capacity.to_string(),
    };
    WritableSpec {
        protect: Some(true),
        comments: vec![
            format!("{}; size at the provider: {size}", registrations(found)),
            "the capability is a guess: correct it".to_owned(),
        ],
        ..WritableSpec::new(request)
    }
}

/// Describes how the volume is registered, as far as the token sees it.
fn registrations(found: &Registrations) -> String {
    let names: Vec<_> = found.keys.iter().map(NamespacedId::option).collect();
    match (names.as_slice(), found.is_complete) {
        ([], true) => "not registered".to_owned(),
        ([], false) => "no registration that the token sees".to_owned(),
        (names, _) => format!("shares its data with {}", names.join(", ")),
    }
}

fn import_terraform(
    context: &CommandContext,
    arguments: &ImportArgs,
    file: &Path,
) -> Result<Exit, CliError> {
    let shown = one_line(&file.display().to_string());
    let refused = |why: &str| {
        let message = format!("cannot read `{shown}` as Terraform state: {why}");
        Diagnostic::error(Code::ImportTerraformState, message)
            .help(Code::ImportTerraformState.advice())
    };
    let text = match file.to_str() {
        Some("-") => {
            context.stdin.with_reader(|stdin| files::read_text_from(stdin, "standard input"))?
        }
        Some(_) | None => files::read_text(&context.directory, file)?,
    };
    let found = read_terraform_state(&text).map_err(|why| refused(&why))?;
    write_specifications(context, arguments, &found.volumes)?;
    let blocks = removed_blocks(&found.addresses);
    if arguments.output.directory.is_none() && arguments.output.file.is_none() {
        context.printer.print_lines(&blocks);
    } else {
        context.printer.print_result(&blocks);
    }
    let volumes = volume_count(found.volumes.len());
    context.printer.print_status(&format!(
        "{volumes} written, without secrets. Replace these resources in Terraform's configuration with the `removed` blocks, and apply that first."
    ));
    let problems = found.problems.iter().map(|problem| {
        Diagnostic::error(Code::ImportTerraformState, format!("{problem} ({shown})"))
            .help(Code::ImportTerraformState.advice())
    });
    let problems: Diagnostics = problems.collect();
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    context.print_diagnostics(&problems, &SourceMap::default());
    Ok(Exit::Error)
}

/// Writes the specifications: to a file each, to one file, or to standard output.
fn write_specifications(
    context: &CommandContext,
    arguments: &ImportArgs,
    volumes: &[WritableSpec],
) -> Result<(), Diagnostics> {
    let (output, set) = (&arguments.output, arguments.set.as_ref());
    let by_name = output.file.as_deref().and_then(Syntax::from_path);
    let syntax = output.syntax.map(Syntax::from).or(by_name);
    let syntax = syntax.unwrap_or(Syntax::Hcl);
    let text = || match volumes {
        [only] => encode_file(only, set, syntax),
        several => encode_all(several, set, syntax),
    };
    let files: Vec<(PathBuf, String)> = match (&output.directory, &output.file) {
        (Some(directory), _) => {
            let names = file_names(volumes).into_iter().zip(volumes);
            let file = |(name, volume): (String, &WritableSpec)| {
                let path = directory.join(format!("{name}.{syntax}"));
                (path, encode_file(volume, set, syntax))
            };
            names.map(file).collect()
        }
        (None, Some(file)) if file.as_os_str() != "-" => vec![(file.clone(), text())],
        (None, _) => {
            if !volumes.is_empty() {
                context.printer.print_result(&text());
            }
            return Ok(());
        }
    };
    files::write_many(&context.directory, &files, output.force)
}

/// Returns a file name for each volume: its ID, below its namespace if there are several.
fn file_names(volumes: &[WritableSpec]) -> Vec<String> {
    let namespaces = volumes.iter().map(|volume| &volume.request.namespace);
    let several = namespaces.collect::<BTreeSet<_>>().len() > 1;
    let mut taken = BTreeSet::new();
    let mut names = vec![];
    for WritableSpec { request, .. } in volumes {
        let id = portable_name(request.id.as_str());
        let mut name = if several {
            format!("{}/{id}", portable_name(request.namespace.as_str()))
        } else {
            id
        };
        // Some file systems ignore case.
        while !taken.insert(name.to_lowercase()) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// Returns a file name that every file system accepts and that is not hidden.
fn portable_name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text = text.replace(|c| !is_plain(c), "_");
    match text.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_volume_has_a_file_of_its_own() {
        let volume = |namespace: &str, id: &str| {
            let external = ExternalVolume {
                health: None,
                external_id: ExternalId::new(id),
                capacity: nomad_csi_model::Bytes::default(),
                context: [].into(),
                clone_id: None,
                snapshot_id: None,
                published_nodes: vec![],
                condition: None,
            };
            let namespace = Namespace::new(namespace);
            registration(&external, PluginId::new("p"), namespace, id, &Registrations::default())
        };
        let names = |volumes: &[(&str, &str)]| {
            let volumes: Vec<_> = volumes.iter().map(|(n, id)| volume(n, id)).collect();
            file_names(&volumes)
        };
        assert_eq!(
            names(&[("default", "a/b"), ("default", "A_b"), ("default", "../x")]),
            ["a_b", "A_b_", "_._x"]
        );
        assert_eq!(names(&[("default", "a"), ("prod", "a")]), ["default/a", "prod/a"]);
    }
}
