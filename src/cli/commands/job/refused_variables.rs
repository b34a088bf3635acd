//! `--var` and `--var-file` of job commands, which Nomad's own commands have: job files take no variables here.
//!
//! They are arguments so that the error can name the way out. Help and completion do not show them, and their values
//! are not repeated.

use clap::Args;

use crate::cli::args::RedactedText;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// Variables of a job file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RefusedVariables {
    /// Refused
    #[arg(long = "var", value_name = "NAME=VALUE", hide = true)]
    variables: Vec<RedactedText>,
    /// Refused
    #[arg(long = "var-file", value_name = "FILE", hide = true)]
    variable_files: Vec<String>,
}

const RENDER_WITH_VARIABLE: &str =
    "render the file first: `nomad job run -output -var=… FILE` prints JSON that is read here";
const RENDER_WITH_FILE: &str =
    "render the file first: `nomad job run -output -var-file=… FILE` prints JSON that is read here";

impl RefusedVariables {
    /// Checks that there are none.
    ///
    /// # Errors
    /// If the command line has a variable or a file of variables.
    pub(crate) fn require_none(&self) -> Result<(), Diagnostics> {
        let (option, help) = match (&self.variables[..], &self.variable_files[..]) {
            ([], []) => return Ok(()),
            ([_, ..], _) => ("--var", RENDER_WITH_VARIABLE),
            ([], [_, ..]) => ("--var-file", RENDER_WITH_FILE),
        };
        let message = format!("cannot use `{option}`: job files take no variables here");
        Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("this program evaluates no expressions of job files")
            .help(help)
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        refused: RefusedVariables,
    }

    #[test]
    fn a_variable_is_refused_with_the_way_out_and_without_its_value() {
        for (arguments, option) in [
            (vec!["--var", "a=hunter2"], "-var=…"),
            (vec!["--var=a=hunter2", "--var", "b=1"], "-var=…"),
            (vec!["--var-file", "prod.hcl"], "-var-file=…"),
        ] {
            let command = Command::parse_from(std::iter::once("x").chain(arguments.clone()));
            let problems = command.refused.require_none().expect_err("a variable");
            let problem = problems.iter().next().expect("a problem");
            assert!(problem.help[0].contains(option), "{problem:?}");
            assert!(problem.help[0].contains("nomad job run -output"), "{problem:?}");
            assert!(!format!("{problem:?}").contains("hunter2"), "{problem:?}");
        }
        let command = Command::parse_from(["x"]);
        assert_eq!(command.refused.require_none(), Ok(()));
    }
}
