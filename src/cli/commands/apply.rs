//! `apply`: from files, or from a saved plan.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use crate::cli::args::{
    ChangeArgs, FileArgs, GivenVariable, LedgerArgs, LedgerChoice, OutputArgs, ParallelismArgs,
    PluginFilesArgs, ReportArgs, ServerWaitArgs, SetArgs, required_paths,
};
use crate::cli::change_options::change_options;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::submit::{Submitted, print_submitted, submit};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::ledger_access;
use crate::cli::saved_plan_file::{SavedPlanFile, is_saved_plan, read_saved_plan, read_streams};
use crate::cli::spec_runs::{SpecRun, changes_of_runs, load_runs};
use crate::cli::specs::{EmptyFiles, LoadOptions, load_specifications_in};
use crate::cli::ui::one_line;
use nomad_csi_client::files::StreamTexts;
use nomad_csi_client::reconcile::workflow::{
    ApplyMode, ApplyRequest, SetSelection, Specifications,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, shell_quoted};
use nomad_csi_plan::{SavedPlan, SavedVariable, SnapshotUse};

/// The IDs of the options that the command line names. It takes no values, so it must be the first
/// field of its command: later fields take theirs out of the matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypedOptions(Vec<String>);

impl TypedOptions {
    /// Returns the first of these options that the command line names.
    pub(crate) fn first_of(&self, ids: &[&'static str]) -> Option<&'static str> {
        let is_typed = |id: &&str| self.0.iter().any(|typed| typed == id);
        ids.iter().copied().find(is_typed)
    }
}

impl FromArgMatches for TypedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(clap::Id::as_str).filter(is_typed);
        Ok(Self(ids.map(ToOwned::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TypedOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Arguments of `apply`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct ApplyArgs {
    /// The options that the command line names.
    #[command(flatten)]
    pub typed: TypedOptions,
    /// The specifications, or one saved plan.
    #[command(flatten)]
    pub files: FileArgs,
    /// The set of the volumes.
    #[command(flatten)]
    pub set: SetArgs,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The prompt, the failures and the plugins.
    #[command(flatten)]
    pub options: ApplyOptions,
    /// Wait up to five minutes until the volumes are schedulable (exit code 3 on timeout)
    #[arg(long)]
    pub wait: bool,
    /// Override the server's soft-mandatory policies (Nomad Enterprise)
    #[arg(long)]
    pub policy_override: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The reports.
    #[command(flatten)]
    pub reports: ReportArgs,
    /// The plugins.
    #[command(flatten)]
    pub plugins: PluginFilesArgs,
    /// The additional changes.
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
    /// The wait for the server.
    #[command(flatten)]
    pub server_wait: ServerWaitArgs,
}

/// How `apply` handles prompts, failures and unhealthy plugins.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ApplyOptions {
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Apply the other changes even if some are blocked or must wait
    #[arg(long)]
    pub keep_going: bool,
    /// Do not wait for unhealthy plugins
    ///
    /// By default, the command waits up to two minutes for a plugin that has no healthy controller.
    #[arg(long)]
    pub no_wait: bool,
}

/// The options that a saved plan contains.
const SAVED_OPTIONS: [&str; 8] = [
    "syntax",
    "set",
    "server_version",
    "prune",
    "replace",
    "snapshot_first",
    "delete_data",
    "accept_loss",
];

/// Applies files or a saved plan.
///
/// # Errors
/// If the saved plan or a file cannot be read, and those of [`submit`].
pub(crate) async fn apply_specifications(
    context: &CommandContext,
    arguments: &ApplyArgs,
) -> Result<Exit, CliError> {
    let mut files = arguments.files.clone();
    files.read_before = read_streams(context, &files.all())?;
    let saved = saved_plan(context, arguments, &files.read_before)?;
    let saved = saved.as_ref();
    if let Some(saved) = saved {
        check_ledger(context, saved, &arguments.ledger)?;
    }
    let mode = ApplyMode::Apply {
        is_approved: arguments.options.yes,
        keep_going: arguments.options.keep_going,
        waits_for_plugins: !arguments.options.no_wait,
    };
    let plan = saved.map(|saved| &saved.plan);
    let requested = plan.and_then(|plan| plan.options().ok()).unwrap_or_default();
    let share = requested.share.iter().map(NamespacedId::option);
    let share: Vec<_> = arguments.changes.share.iter().cloned().chain(share).collect();
    let deny: Vec<_> = arguments.changes.deny.iter().chain(&requested.deny).copied().collect();
    let plugins = context.plugin_snapshots(&arguments.plugins)?;
    let load_options = LoadOptions {
        purpose: mode.purpose(),
        empty_files: EmptyFiles::with_prune(arguments.changes.prune || requested.prune),
        share: Some(&share),
        deny: &deny,
        policies: Some(context.policies()?),
        refuses_files: false,
        plugins: plugins.as_ref().map(|plugins| (plugins, SnapshotUse::BesideServer)),
    };
    let (files, set, namespace) = match saved {
        Some(saved) => (&saved.files, &saved.set, saved.namespace.clone()),
        None => (&files, &arguments.set, context.namespace()?),
    };
    let runs = match saved {
        Some(_) => {
            let specifications =
                load_specifications_in(context, files, load_options, set, namespace.as_ref())?;
            vec![SpecRun::only(specifications)]
        }
        None => load_runs(context, files, load_options, set, namespace.as_ref())?,
    };
    if let Some(plan) = plan {
        runs.iter().try_for_each(|run| refuse_lost_values(plan, &run.specifications))?;
    }
    let mut changes = vec![];
    for (run, arguments) in runs.iter().zip(changes_of_runs(&arguments.changes, &runs)?) {
        let mut options = change_options(context, &arguments, &run.specifications.volumes)?;
        options.plan.plugin_snapshots = plugins.clone().unwrap_or_default();
        changes.push(match plan {
            Some(plan) => options.for_saved_plan(plan)?,
            None => options,
        });
    }
    context
        .with_cluster(async |cluster| {
            let cluster = cluster.overriding_policies(arguments.policy_override);
            let cluster = &*cluster.waiting(context.wait_for_server(arguments.server_wait));
            let access = ledger_access(context, &arguments.ledger, cluster);
            let (wait, parallelism) = (arguments.server_wait, arguments.parallelism.parallelism);
            let workflow = context.waiting_workflow(cluster, "apply", wait, parallelism);
            let mut all = Submitted { volumes: None, result: Ok(Exit::Done) };
            for (index, (run, options)) in runs.iter().zip(changes).enumerate() {
                if index > 0 {
                    context.printer.print_status("");
                }
                if let Some(heading) = run.heading() {
                    context.printer.print_status(&heading);
                }
                let set = SetSelection::new(access.clone(), run.specifications.set.as_ref());
                let request = ApplyRequest {
                    specifications: &run.specifications,
                    mode,
                    set: set.as_ref(),
                    ledger: access.as_ref(),
                    options,
                    saved_plan: plan,
                    waits_until_schedulable: arguments.wait,
                };
                let submitted = submit(context, &workflow, &request).await;
                if let Some(volumes) = submitted.volumes {
                    all.volumes.get_or_insert_default().extend(volumes);
                }
                if run.directory.is_none() {
                    all.result = submitted.result;
                    break;
                }
                let exit = context.exit_of_run(submitted.result, run.heading());
                all.result = all.result.map(|before| before.max(exit));
                if exit == Exit::Interrupted {
                    break;
                }
            }
            // Of several runs, the volumes are a list, however many there are.
            let is_one = matches!(runs.as_slice(), [run] if run.specifications.volumes.len() == 1);
            let prints = !arguments.reports.replace_output();
            let output = prints.then_some(&arguments.output.output);
            print_submitted(context, is_one, all, output)
        })
        .await
}

/// Checks that a saved plan was made with the ledger of the command line. The file does not choose one: who can
/// change the file could name any file that this user can write.
fn check_ledger(
    context: &CommandContext,
    saved: &SavedPlanFile,
    typed: &LedgerArgs,
) -> Result<(), CliError> {
    let resolved = |ledger: &LedgerArgs| match &ledger.ledger {
        LedgerChoice::File(path) => LedgerChoice::File(context.directory.join(path)),
        choice @ (LedgerChoice::Nomad | LedgerChoice::Without) => choice.clone(),
    };
    let (planned, typed_choice) = (resolved(&saved.ledger), resolved(typed));
    let is_same = planned == typed_choice
        && (planned != LedgerChoice::Nomad
            || saved.ledger.ledger_namespace == typed.ledger_namespace);
    if is_same {
        return Ok(());
    }
    let described = |ledger: &LedgerArgs| match &ledger.ledger {
        LedgerChoice::Nomad if ledger.ledger_namespace != "default" => {
            format!("--ledger nomad --ledger-namespace {}", shell_quoted(&ledger.ledger_namespace))
        }
        choice => format!("--ledger {}", shell_quoted(choice)),
    };
    let message = format!(
        "cannot apply the saved plan: it was made with `{}`, and this command has `{}`",
        one_line(&described(&saved.ledger)),
        one_line(&described(typed))
    );
    Err(Diagnostic::error(Code::PlanLedger, message)
        .note("a saved plan does not choose the ledger, because others may have changed the file")
        .help("if this is your ledger, add the options with which the plan was made")
        .into())
}

/// Returns the saved plan that the command line names, if one of its paths is one.
fn saved_plan(
    context: &CommandContext,
    arguments: &ApplyArgs,
    streams: &StreamTexts,
) -> Result<Option<SavedPlanFile>, CliError> {
    let paths = arguments.files.all();
    let is_one = |path: &&String| is_saved_plan(context, streams, path);
    let Some(plan) = paths.iter().find(is_one) else {
        return Ok(None);
    };
    if paths.len() > 1 {
        let message = format!("cannot apply saved plan `{}` with other files", one_line(plan));
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("a saved plan names its specifications")
            .help("apply the plan alone")
            .into());
    }
    if let Some(option) = arguments.typed.first_of(&SAVED_OPTIONS) {
        let option = option.replace('_', "-");
        let message = format!("cannot use `--{option}` with a saved plan");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("a saved plan contains the options that it was made with")
            .help(format!("remove `--{option}`, or save another plan with it"))
            .into());
    }
    let mut saved = read_saved_plan(context, streams, plan)?;
    refuse_saved_values(&arguments.files.variables, &saved.plan)?;
    saved.files.variables.clone_from(&arguments.files.variables);
    saved.files.variable_files.clone_from(&arguments.files.variable_files);
    Ok(Some(saved))
}

/// Refuses a plan for which a variable without a stored value had one from outside, and now has its default.
fn refuse_lost_values(plan: &SavedPlan, found: &Specifications) -> Result<(), CliError> {
    let is_lost = |saved: &&SavedVariable| {
        let now = found.variables.iter().find(|now| now.name == saved.name);
        saved.value.is_none() && now.is_some_and(|now| now.is_default() && now.from != saved.from)
    };
    let Some(lost) = plan.origin().variables.iter().find(is_lost) else {
        return Ok(());
    };
    let (name, from) = (one_line(&lost.name), one_line(&lost.from));
    let message = format!(
        "cannot apply the saved plan: variable `{name}` had its value from {from}, and has its default now"
    );
    Err(Diagnostic::error(Code::SpecUnsetVariable, message)
        .note("a saved plan holds no value that may be secret: give it as for the plan")
        .help(format!("use `--var-file FILE` or NOMAD_CSI_VAR_{name}"))
        .into())
}

/// Refuses `--var` for a variable whose value the plan holds: with another one, it would be another plan.
fn refuse_saved_values(given: &[GivenVariable], plan: &SavedPlan) -> Result<(), CliError> {
    let is_saved = |given: &&GivenVariable| {
        let saved = plan.origin().variables.iter();
        saved.into_iter().any(|saved| saved.value.is_some() && saved.name == given.name)
    };
    let Some(given) = given.iter().find(is_saved) else {
        return Ok(());
    };
    let name = one_line(&given.name);
    let message =
        format!("cannot use `--var {name}=…`: the saved plan holds the value of `{name}`");
    Err(Diagnostic::error(Code::CliInvalidValue, message)
        .help("remove `--var`, or save another plan with the other value")
        .into())
}
