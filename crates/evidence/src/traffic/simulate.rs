//! The input tokens of recorded runs if large results had been descriptors, with stated assumptions.
//!
//! A request of the model contains everything before it. A result from the threshold on is replaced
//! by its descriptor; after the results of a turn, the model asks for what it needs with further
//! calls, each of them a request of its own with a reply that stays in the conversation. The rest of
//! the run is as recorded. A request that the API refused as too long is not in the recorded input;
//! with a replacement it is made.

use serde::Serialize;

use super::recording::Overflow;

/// The tokens of a call of an extraction tool.
const CALL_TOKENS: u64 = 80;

/// What a model does with a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Behaviour {
    /// One call with a short answer.
    OneCall,
    /// Two calls with replies of records, each as long as the reply limit allows.
    TwoCalls,
    /// Three calls with replies of 2,000 tokens.
    ThreeCalls,
}

impl Behaviour {
    pub(super) const ALL: [Self; 3] = [Self::OneCall, Self::TwoCalls, Self::ThreeCalls];

    /// The number of calls.
    pub(super) fn calls(self) -> u64 {
        match self {
            Self::OneCall => 1,
            Self::TwoCalls => 2,
            Self::ThreeCalls => 3,
        }
    }

    /// The tokens of a reply.
    pub(super) fn reply_tokens(self) -> u64 {
        match self {
            Self::OneCall => 400,
            // `prompt.offload.reply_tokens`.
            Self::TwoCalls => 1600,
            Self::ThreeCalls => 2000,
        }
    }

    /// The name in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::OneCall => "one call, 400 tokens",
            Self::TwoCalls => "two calls, 1,600 tokens each",
            Self::ThreeCalls => "three calls, 2,000 tokens each",
        }
    }
}

/// A part of a recorded conversation, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenItem {
    User(u64),
    Assistant(u64),
    /// A result, with the tokens of its descriptor if it can be stored.
    Result {
        tokens: u64,
        descriptor: Option<u64>,
    },
}

/// A recorded run in tokens.
#[derive(Debug, Clone)]
pub(super) struct TokenRun {
    pub(super) overflow: Option<Overflow>,
    /// The input of all requests, as the API counted it.
    pub(super) api_input: Option<u64>,
    pub(super) items: Vec<TokenItem>,
}

/// The tokens of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RunTokens {
    /// The input of all requests.
    pub(super) input: u64,
    /// The conversation at the end.
    pub(super) context: u64,
    /// The results that were replaced.
    pub(super) replaced: u64,
}

/// The replacement of large results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacement {
    pub(super) threshold: u64,
    /// `None` if the model makes no further calls.
    pub(super) behaviour: Option<Behaviour>,
    /// The tokens of the definitions of the extraction tools, which every request has.
    pub(super) definitions: u64,
}

impl RunTokens {
    /// Adds the further calls about `results`, which were replaced. They are given in tokens.
    fn add_calls(&mut self, replacement: Option<Replacement>, results: &[u64]) {
        let Some(replacement) = replacement else { return };
        let Some(behaviour) = replacement.behaviour else { return };
        for tokens in results {
            for _ in 0..behaviour.calls() {
                self.input += self.context + replacement.definitions;
                // A reply is never longer than the result.
                self.context += CALL_TOKENS + behaviour.reply_tokens().min(*tokens);
            }
        }
    }
}

impl TokenRun {
    /// The tokens of the run as it was recorded.
    pub(super) fn as_recorded(&self) -> RunTokens {
        self.simulate(None)
    }

    /// The tokens of the run with large results replaced.
    pub(super) fn with_replacement(&self, replacement: Replacement) -> RunTokens {
        self.simulate(Some(replacement))
    }

    fn simulate(&self, replacement: Option<Replacement>) -> RunTokens {
        let definitions = replacement.map_or(0, |replacement| replacement.definitions);
        let mut run = RunTokens::default();
        let mut in_message = false;
        // The results of this turn that were replaced: the model has all of them before it goes on.
        let mut replaced = Vec::new();
        for item in &self.items {
            if !matches!(item, TokenItem::Result { .. }) {
                run.add_calls(replacement, &replaced);
                replaced.clear();
            }
            match *item {
                TokenItem::User(tokens) => {
                    in_message = false;
                    run.context += tokens;
                }
                TokenItem::Assistant(tokens) => {
                    // A message and its calls come from one request.
                    if !in_message {
                        run.input += run.context + definitions;
                    }
                    in_message = true;
                    run.context += tokens;
                }
                TokenItem::Result { tokens, descriptor } => {
                    in_message = false;
                    let is_large =
                        replacement.is_some_and(|replacement| tokens >= replacement.threshold);
                    if let Some(descriptor) = descriptor.filter(|_| is_large) {
                        run.replaced += 1;
                        run.context += descriptor;
                        replaced.push(tokens);
                    } else {
                        run.context += tokens;
                    }
                }
            }
        }
        run.add_calls(replacement, &replaced);
        // The request after the last result, if it did not fit.
        if !in_message && self.overflow.is_some() && replacement.is_some() {
            run.input += run.context + definitions;
        }
        run
    }

    /// Whether the run would have fitted into the context window. `None` if it did. The endpoint
    /// counts with another tokenizer, so its count of the recorded conversation is the scale.
    pub(super) fn fits(&self, replacement: Replacement) -> Option<bool> {
        let Overflow { tokens, limit } = self.overflow?;
        let recorded = u128::from(self.as_recorded().context.max(1));
        let context = self.with_replacement(replacement).context + replacement.definitions;
        Some(u128::from(context) * u128::from(tokens) <= u128::from(limit) * recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(overflow: Option<Overflow>) -> TokenRun {
        TokenRun {
            overflow,
            api_input: None,
            items: vec![
                TokenItem::User(100),
                TokenItem::Assistant(10),
                TokenItem::Assistant(10),
                TokenItem::Result { tokens: 20_000, descriptor: Some(600) },
                TokenItem::Assistant(50),
                TokenItem::Result { tokens: 900, descriptor: Some(500) },
                TokenItem::Result { tokens: 30_000, descriptor: None },
            ],
        }
    }

    fn replacement(behaviour: Option<Behaviour>) -> Replacement {
        Replacement { threshold: 10_000, behaviour, definitions: 7 }
    }

    #[test]
    fn every_request_contains_everything_before_it() {
        let recorded = run(None).as_recorded();
        assert_eq!(recorded.input, 100 + 20_120);
        assert_eq!(recorded.context, 20_170 + 900 + 30_000);
        assert_eq!(recorded.replaced, 0);
    }

    #[test]
    fn a_descriptor_replaces_what_is_large_and_can_be_stored() {
        let tokens = run(None).with_replacement(replacement(None));
        assert_eq!(tokens.replaced, 1);
        assert_eq!(tokens.input, (100 + 7) + (120 + 600 + 7));
        assert_eq!(tokens.context, 120 + 600 + 50 + 900 + 30_000);
    }

    #[test]
    fn further_calls_are_requests_with_replies_that_stay() {
        let tokens = run(None).with_replacement(replacement(Some(Behaviour::TwoCalls)));
        let reply = CALL_TOKENS + 1600;
        let (first, second) = (120 + 600, 120 + 600 + reply);
        let third = second + reply;
        assert_eq!(tokens.input, 107 + (first + 7) + (second + 7) + (third + 7));
        assert_eq!(tokens.context, third + 50 + 900 + 30_000);
    }

    #[test]
    fn further_calls_come_after_all_results_of_a_turn() {
        let parallel = TokenRun {
            overflow: None,
            api_input: None,
            items: vec![
                TokenItem::User(100),
                TokenItem::Assistant(10),
                TokenItem::Result { tokens: 20_000, descriptor: Some(600) },
                TokenItem::Result { tokens: 30_000, descriptor: Some(700) },
                TokenItem::Assistant(5),
            ],
        };
        let tokens = parallel.with_replacement(replacement(Some(Behaviour::OneCall)));
        let both = 110 + 600 + 700;
        let reply = CALL_TOKENS + 400;
        assert_eq!(tokens.input, 107 + (both + 7) + (both + reply + 7) + (both + 2 * reply + 7));
        assert_eq!((tokens.context, tokens.replaced), (both + 2 * reply + 5, 2));
    }

    #[test]
    fn a_refused_request_is_only_made_with_a_replacement() {
        let overflow = Some(Overflow { tokens: 210_000, limit: 200_000 });
        assert_eq!(run(overflow).as_recorded(), run(None).as_recorded());
        let tokens = |overflow| run(overflow).with_replacement(replacement(None));
        let refused = tokens(overflow).context + 7;
        assert_eq!(tokens(overflow).input, tokens(None).input + refused);
    }

    #[test]
    fn an_overflow_is_avoided_if_the_conversation_fits_in_the_endpoints_own_tokens() {
        // 51,070 tokens of ours are 210,000 of the endpoint.
        let overflow = Overflow { tokens: 210_000, limit: 200_000 };
        assert_eq!(run(Some(overflow)).fits(replacement(None)), Some(true));
        let overflow = Overflow { tokens: 400_000, limit: 200_000 };
        assert_eq!(run(Some(overflow)).fits(replacement(None)), Some(false));
        assert_eq!(run(None).fits(replacement(None)), None);
    }
}
