//! The macro that declares the inputs of verbs.

/// Declares the inputs of a verb, or of a group that several verbs share, as a struct.
///
/// Each field is an input or a group. Its doc comment is its description, `= "..."` is its default
/// as people write it, and the brackets contain method calls on [`Input`](crate::Input).
///
/// ```
/// use forebay_ask::{Given, Share, read};
/// use forebay_core::Nanos;
///
/// forebay_ask::ask! {
///     /// Find the least capacity
///     pub struct CapacityAsk("plan capacity") {
///         /// The trace
///         trace: String [.positional().word("TRACE")],
///         /// Times to answer within
///         within: Vec<Nanos> = "5ms,10ms",
///         /// The share to answer
///         fraction: Share = "99%",
///         /// Runs at a time
///         jobs: Option<u16> [.between(1.0, 64.0)],
///     }
/// }
///
/// let mut given = Given::default();
/// given.text("trace", "web.csv").text("within", "1 s, 2 s");
/// let ask: CapacityAsk = read(&given).unwrap();
/// assert_eq!(ask.within, [Nanos::from_secs(1), Nanos::from_secs(2)]);
/// assert_eq!((ask.fraction.as_f64(), ask.jobs), (0.99, None));
/// given.text("jobs", "65");
/// assert!(read::<CapacityAsk>(&given).unwrap_err().message.contains("from 1 to 64"));
/// ```
#[macro_export]
macro_rules! ask {
    (
        $(#[doc = $about:literal])+
        $visible:vis struct $name:ident($verb:literal) {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty $(= $default:literal)? $([$($rule:tt)*])?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        $visible struct $name {
            $(
                $(#[doc = $doc])*
                #[allow(missing_docs)] // A group documents itself.
                pub $field: $type,
            )*
        }

        impl $crate::Ask for $name {
            const VERB: &'static str = $verb;
            const ABOUT: &'static str = concat!($($about, "\n"),+);

            fn inputs() -> Vec<$crate::Input> {
                let mut all = Vec::new();
                $(
                    let input = $crate::Input::new(stringify!($field), concat!($($doc, "\n"),*))
                        $(.default($default))? $($($rule)*)?;
                    <$type as $crate::Field>::declare(input, &mut all);
                )*
                all
            }

            fn fill(given: &$crate::Given) -> Result<Self, $crate::AskError> {
                Ok($name {
                    $(
                        $field: {
                            let input = $crate::Input::new(stringify!($field), "")
                                $(.default($default))? $($($rule)*)?;
                            <$type as $crate::Field>::fill(input, given)?
                        },
                    )*
                })
            }
        }

        impl $crate::Field for $name {
            fn declare(_: $crate::Input, all: &mut Vec<$crate::Input>) {
                all.extend(<Self as $crate::Ask>::inputs());
            }

            fn fill(_: $crate::Input, given: &$crate::Given) -> Result<Self, $crate::AskError> {
                <Self as $crate::Ask>::fill(given)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{Ask, Delay, Given, Share, Size, read};
    use forebay_core::Nanos;

    crate::ask! {
        /// A group
        struct Source("") {
            /// The format
            from: Option<String> [.excludes(&["columns"])],
            /// The columns
            columns: Option<String>,
        }
    }

    crate::ask! {
        /// Do something
        ///
        /// At length.
        struct Doing("plan something") {
            /// The trace
            trace: String [.positional()],
            /// Times
            within: Vec<Nanos> = "5ms,10ms",
            /// A share
            fraction: Share = "99%",
            /// Whether
            trust_times: bool,
            /// Makes resamples
            seed: u64 = "1" [.requires("confidence")],
            /// Intervals
            confidence: Option<Share>,
            /// How much
            size: Option<Size> [.between(512.0, 1e12)],
            source: Source,
        }
    }

    fn given(all: &[(&str, &str)]) -> Given {
        let mut given = Given::default();
        for (name, text) in all {
            given.text(name, *text);
        }
        given
    }

    fn refused(all: &[(&str, &str)]) -> String {
        crate::spelled(
            &read::<Doing>(&given(all)).unwrap_err().to_string(),
            crate::Spelling::Command,
        )
    }

    #[test]
    fn omitted_values_have_their_default() {
        let ask: Doing = read(&given(&[("trace", "t"), ("trust_times", "true")])).unwrap();
        assert_eq!(ask.within, [Nanos(5_000_000), Nanos(10_000_000)]);
        assert_eq!((ask.trace.as_str(), ask.trust_times, ask.seed), ("t", true, 1));
        assert_eq!((ask.confidence, ask.size, ask.fraction.as_f64()), (None, None, 0.99));
        assert_eq!((ask.source.from, ask.source.columns), (None, None));
        let names: Vec<&str> = Doing::inputs().iter().map(|input| input.name).collect();
        assert_eq!(names[6..], ["size", "from", "columns"]);
        assert_eq!(
            (Doing::VERB, Doing::ABOUT),
            ("plan something", " Do something\n\n At length.\n")
        );
    }

    crate::ask! {
        /// Do something to several
        struct Several("several") {
            /// What
            files: Vec<String> [.positional().at_least_one()],
            /// When
            shift: Vec<Delay>,
        }
    }

    #[test]
    fn lists_that_must_not_be_empty_are_required() {
        let said = read::<Several>(&given(&[("shift", "0s")])).unwrap_err().to_string();
        assert!(said.ends_with("got none, expected at least one"), "{said}");
        let ask: Several = read(&given(&[("files", "a,b"), ("shift", "0s,1 s")])).unwrap();
        assert_eq!((ask.files.len(), ask.shift[1]), (2, Delay(Nanos::from_secs(1))));
        assert!(read::<Several>(&given(&[("files", "a")])).unwrap().shift.is_empty());
    }

    #[test]
    fn errors_name_the_wrong_value() {
        let cases: [(&[(&str, &str)], &str); 8] = [
            (&[], "--trace: missing; expected TEXT"),
            (&[("trace", "t"), ("with", "5ms")], "--with: no such input"),
            (
                &[("trace", "t"), ("fractoin", "1")],
                "--fractoin: no such input; did you mean --fraction?",
            ),
            (&[("trace", "t"), ("within", "5ms,5")], "--within: got '5', expected a time"),
            (
                &[("trace", "t"), ("seed", "2")],
                "--seed: has an effect only with --confidence; add it",
            ),
            (&[("trace", "t"), ("size", "1")], "--size: got '1', expected a number from 512 to"),
            (&[("trace", "t"), ("fraction", "2")], "--fraction: got '2', expected a share above 0"),
            (
                &[("trace", "t"), ("from", "a"), ("columns", "b")],
                "--from: cannot be combined with --columns; leave one of them out",
            ),
        ];
        for (all, said) in cases {
            assert!(refused(all).starts_with(said), "{}", refused(all));
        }
    }
}
