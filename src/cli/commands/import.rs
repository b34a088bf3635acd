//! `import`: what exists, as specifications, and in the ledger if a set is named.
//!
//! Nothing is changed on the server. Where a set is named the files are written while it is held, so
//! that there are none if there is no ledger to be had, and the ledger after them: if that fails,
//! nothing is owned, and a repetition with `--force` makes it good.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::args::ImportArguments;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{alone_on_set, some_ledger, talk};
use crate::cli::ui::{import_summary, one_line, volumes};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::files;
use crate::model::{
    AccessMode, AttachmentMode, Capability, ExternalId, ExternalVolume, HiddenField, Namespace,
    NamespacedId, PluginId, SetName, VolumeId, WantedRequest,
};
use crate::nomad::NomadClient;
use crate::plan::{Imported, Ownership, SeenEqual};
use crate::ports::ProviderReader as _;
use crate::reconcile::{ImportFound, Selection, find_to_import};
use crate::spec::{Syntax, Written, encode_all, encode_file, read_terraform_state, removed_blocks};

/// Writes what exists.
///
/// # Errors
/// If the server cannot be read, a volume is not there, a file is there already, or the ledger cannot
/// be written.
pub(crate) async fn run(context: &Context, arguments: &ImportArguments) -> Result<Exit, CliError> {
    if let Some(file) = &arguments.from_tfstate {
        return terraform(context, arguments, file);
    }
    context
        .with_client(async |client| match &arguments.external[..] {
            [plugin, external] => {
                external_volume(context, client, arguments, plugin, external).await
            }
            _ => registered(context, client, arguments).await,
        })
        .await
}

async fn registered(
    context: &Context,
    client: &NomadClient,
    arguments: &ImportArguments,
) -> Result<Exit, CliError> {
    let namespace = context.namespace()?.unwrap_or_default();
    let selection = if arguments.all {
        Selection::All(namespace)
    } else {
        let ids = arguments.ids.iter();
        let key = |id: &String| NamespacedId::new(namespace.clone(), VolumeId::new(id));
        Selection::These(ids.map(key).collect())
    };
    let parallelism = usize::from(arguments.parallelism.parallelism);
    let reading = find_to_import(client, &selection, parallelism);
    let found = context.interrupts.unless(reading).await??;
    if !found.missing.is_empty() {
        return Err(missing(&found.missing).into());
    }
    let volumes: Vec<Written> = found
        .volumes
        .iter()
        .map(|one| one.written.clone())
        .collect();
    match &arguments.set {
        Some(set) => own(context, client, arguments, set, &found.volumes, &volumes).await?,
        None => write(context, arguments, &volumes)?,
    }
    tell(context, arguments, &found);
    Ok(Exit::Done)
}

fn missing(keys: &[NamespacedId]) -> Diagnostics {
    let one = |key: &NamespacedId| {
        let message = format!("there is no volume {}", one_line(&key.to_string()));
        Diagnostic::error(Code::VolumeNotFound, message).help(Code::VolumeNotFound.remedy())
    };
    keys.iter().map(one).collect()
}

fn tell(context: &Context, arguments: &ImportArguments, found: &ImportFound) {
    context.printer.talk(&import_summary(found));
    if arguments.set.is_none() && !found.volumes.is_empty() {
        context.printer.talk(
            "No set is named, so nothing is owned: `--set NAME` takes them into a set, protected.",
        );
    }
    let remarks: Diagnostics = found.remarks.iter().cloned().collect();
    context.report(&remarks, &SourceMap::default());
}

/// Writes the specifications and takes the volumes into a set, protected. What it owns already stays
/// as it is.
async fn own(
    context: &Context,
    client: &NomadClient,
    arguments: &ImportArguments,
    name: &SetName,
    volumes: &[Imported],
    written: &[Written],
) -> Result<(), CliError> {
    let ledger = some_ledger(context, &arguments.place, client)?;
    let at = context.clock.now();
    let named = ledger.name().to_owned();
    let say = talk(context);
    alone_on_set(context, ledger, name, "import", &say, async |set, _stop| {
        write(context, arguments, written)?;
        set.update(|set| {
            for one in volumes {
                let key = one.written.request.key();
                if set.ownership(&key).is_some() {
                    continue;
                }
                let mut applied = set.key().of_wanted(&one.written.request);
                if one.written.unknown.contains(&HiddenField::MountFlags) {
                    applied.remove("mount_options.mount_flags");
                }
                let ownership = Ownership {
                    protect: true,
                    generation: 0,
                    applied,
                    seen_equal: Some(SeenEqual {
                        modify_index: one.modify_index,
                        at,
                    }),
                };
                set.own(key, ownership);
            }
        })
        .await?;
        Ok(())
    })
    .await?;
    let line = format!("Set {name} in {named} owns them, protected from removal.");
    context.printer.talk(&line);
    Ok(())
}

/// A volume that a provider has and nobody registered: its registration.
async fn external_volume(
    context: &Context,
    client: &NomadClient,
    arguments: &ImportArguments,
    plugin: &str,
    external: &str,
) -> Result<Exit, CliError> {
    let (plugin, external) = (PluginId::new(plugin), ExternalId::new(external));
    let namespace = Namespace::default();
    let listing = client.list_external_volumes(&plugin, &namespace);
    let listed = context.interrupts.unless(listing).await??;
    let Some(volume) = listed.into_iter().find(|one| one.external_id == external) else {
        let message = format!(
            "the provider of plugin {plugin} does not list a volume {}",
            one_line(external.as_str())
        );
        return Err(Diagnostic::error(Code::VolumeNotFound, message)
            .help("check the external ID: it is the provider's own")
            .into());
    };
    let namespace = context.namespace()?.unwrap_or_default();
    let id = arguments.id.as_deref().unwrap_or(external.as_str());
    write(
        context,
        arguments,
        &[registration(&volume, plugin, namespace, id)],
    )?;
    context.printer.talk(
        "How it may be used is not known: correct `capability`; then `plan` says what would be done.",
    );
    Ok(Exit::Done)
}

fn registration(
    volume: &ExternalVolume,
    plugin_id: PluginId,
    namespace: Namespace,
    id: &str,
) -> Written {
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    let key = NamespacedId::new(namespace, VolumeId::new(id));
    let request = WantedRequest {
        name: Some(id.to_owned()),
        external_id: Some(volume.external_id.clone()),
        context: (!volume.context.is_empty()).then(|| volume.context.clone()),
        ..WantedRequest::new(key, plugin_id, vec![capability])
    };
    let size = match volume.capacity.is_zero() {
        true => "a size that it does not say".to_owned(),
        false => volume.capacity.to_string(),
    };
    Written {
        protect: Some(true),
        remarks: vec![
            format!("registered nowhere; its provider has it with {size}"),
            "how it may be used is a guess: correct the capability".to_owned(),
        ],
        ..Written::new(request)
    }
}

fn terraform(
    context: &Context,
    arguments: &ImportArguments,
    file: &Path,
) -> Result<Exit, CliError> {
    let shown = one_line(&file.display().to_string());
    let refused = |why: &str| {
        let message = format!("{shown} cannot be read as Terraform's state: {why}");
        Diagnostic::error(Code::ImportTerraformState, message)
            .help(Code::ImportTerraformState.remedy())
    };
    let text = files::read_text(&context.directory, file)?;
    let found = read_terraform_state(&text).map_err(|why| refused(&why))?;
    write(context, arguments, &found.volumes)?;
    let blocks = removed_blocks(&found.addresses);
    if arguments.output.directory.is_none() && arguments.output.file.is_none() {
        context.printer.talk(&blocks);
    } else {
        context.printer.data(&blocks);
    }
    let volumes = volumes(found.volumes.len());
    context.printer.talk(&format!(
        "{volumes} written; secrets are not taken over. Paste the `removed` blocks into Terraform's configuration in place of these resources, and apply that before anything else."
    ));
    let problems = found.problems.iter().map(|problem| {
        Diagnostic::error(Code::ImportTerraformState, format!("{problem} ({shown})"))
            .help(Code::ImportTerraformState.remedy())
    });
    let problems: Diagnostics = problems.collect();
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    context.report(&problems, &SourceMap::default());
    Ok(Exit::Error)
}

/// Writes the specifications where they are wanted: a file each, one file, or standard output.
fn write(
    context: &Context,
    arguments: &ImportArguments,
    volumes: &[Written],
) -> Result<(), CliError> {
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
            let file = |(name, volume): (String, &Written)| {
                let path = directory.join(format!("{name}.{syntax}"));
                (path, encode_file(volume, set, syntax))
            };
            names.map(file).collect()
        }
        (None, Some(file)) if file.as_os_str() != "-" => vec![(file.clone(), text())],
        (None, _) => {
            if !volumes.is_empty() {
                context.printer.data(&text());
            }
            return Ok(());
        }
    };
    Ok(files::write_many(&context.directory, &files, output.force)?)
}

/// A name for each volume's file: its ID, below its namespace if there are several.
fn file_names(volumes: &[Written]) -> Vec<String> {
    let namespaces = volumes.iter().map(|volume| &volume.request.namespace);
    let several = namespaces.collect::<BTreeSet<_>>().len() > 1;
    let mut taken = BTreeSet::new();
    let mut names = vec![];
    for Written { request, .. } in volumes {
        let id = plain(request.id.as_str());
        let mut name = if several {
            format!("{}/{id}", plain(request.namespace.as_str()))
        } else {
            id
        };
        // File systems may not tell cases apart.
        while !taken.insert(name.to_lowercase()) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// As a file may be called everywhere, and not hidden.
fn plain(text: &str) -> String {
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
                external_id: ExternalId::new(id),
                capacity: crate::model::Bytes::default(),
                context: [].into(),
                clone_id: None,
                snapshot_id: None,
                published_nodes: vec![],
                condition: None,
            };
            let namespace = Namespace::new(namespace);
            registration(&external, PluginId::new("p"), namespace, id)
        };
        let names = |volumes: &[(&str, &str)]| {
            let volumes: Vec<_> = volumes.iter().map(|(n, id)| volume(n, id)).collect();
            file_names(&volumes)
        };
        assert_eq!(
            names(&[("default", "a/b"), ("default", "A_b"), ("default", "../x")]),
            ["a_b", "A_b_", "_._x"]
        );
        assert_eq!(
            names(&[("default", "a"), ("prod", "a")]),
            ["default/a", "prod/a"]
        );
    }
}
