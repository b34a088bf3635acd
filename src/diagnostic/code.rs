//! Every stable code: its word, its cause and its remedy.
//!
//! A code is `area/what`. Its meaning never changes; a code that is no longer produced stays
//! unused rather than being given another meaning. `explain CODE` prints what stands here.

macro_rules! codes {
    ($($variant:ident = $text:literal: $cause:literal, $remedy:literal;)*) => {
        /// The word that names a kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $cause] $variant,)*
        }

        impl Code {
            /// All codes, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word itself: `spec/unknown-field`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Why this happens, in general.
            pub const fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause,)* }
            }

            /// What to do, in general.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

codes! {
    // --- spec: reading volume specifications
    SpecSyntax = "spec/syntax": "The file is not well-formed HCL, YAML or JSON.",
        "Correct the text at the position shown; everything before it was understood.";
    SpecUnknownField = "spec/unknown-field": "The specification has a key that no volume has, so it would have had no effect.",
        "Correct the spelling or remove the key.";
    SpecDuplicateField = "spec/duplicate-field": "A key stands twice in one place, and only one of the two could have an effect.",
        "Keep one of the two.";
    SpecWrongType = "spec/wrong-type": "A value has another type than its field.",
        "Write a value of the type named.";
    SpecMissingField = "spec/missing-field": "A field that a volume cannot do without is missing.",
        "Add the field.";

    // --- internal
    Internal = "internal": "The program contradicts itself: a defect of ours.",
        "Report it with the message and what was run; nothing was changed after it was found.";
}

impl Code {
    /// The code of that word, if there is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_texts_are_sentences() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert_eq!(
                Code::parse(code.as_str()),
                Some(*code),
                "{code} stands twice"
            );
            assert!(
                Code::ALL[..at]
                    .iter()
                    .all(|other| other.as_str() != code.as_str()),
                "{code}"
            );
            for sentence in [code.cause(), code.remedy()] {
                assert!(sentence.ends_with('.'), "{code}: {sentence}");
            }
        }
    }
}
