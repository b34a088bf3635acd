//! Accepts `-var` and `-var-file` with one dash, as `nomad` and `terraform` write them.
//!
//! The parser of the command line would read `-v`, `-a` and `-r`. What follows `--` is left alone.

use std::ffi::OsString;

/// Options of specifications whose names Nomad writes with one dash.
const OPTIONS: [&str; 2] = ["-var", "-var-file"];

/// Returns the arguments with two dashes before these options.
pub(super) fn with_two_dashes(arguments: &[OsString]) -> Vec<OsString> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (options, others) = arguments.split_at(end);
    let rewritten = options.iter().map(|argument| {
        let Some(text) = argument.to_str() else {
            return argument.clone();
        };
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        match OPTIONS.contains(&name) {
            true => format!("-{text}").into(),
            false => argument.clone(),
        }
    });
    rewritten.chain(others.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_before_the_end_of_options_are_rewritten() {
        let rewritten = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let words = with_two_dashes(&arguments);
            words.join(std::ffi::OsStr::new(" ")).into_string()
        };
        for (line, expected) in [
            ("plan -var a=1 x.hcl", "plan --var a=1 x.hcl"),
            ("plan -var=a=1", "plan --var=a=1"),
            ("plan -var-file prod.hcl", "plan --var-file prod.hcl"),
            ("plan -var-file=prod.hcl", "plan --var-file=prod.hcl"),
            ("plan --var a=-var", "plan --var a=-var"),
            ("plan -v -vv -vara -variable=1", "plan -v -vv -vara -variable=1"),
            ("exec -var a=1 -- run -var b", "exec --var a=1 -- run -var b"),
        ] {
            assert_eq!(rewritten(line), Ok(expected.into()), "{line}");
        }
    }
}
