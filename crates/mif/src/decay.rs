//! How the weight of a memory falls with time.

use chrono::{DateTime, FixedOffset};

use crate::{
    duration::IsoDuration,
    error::{Form, MifError},
    extensible_enum::{open_list, open_list_part},
    fields::{Key, Located, Part},
    object::ObjectWriter,
    timestamp::Timestamp,
    unit_interval::UnitInterval,
    value::{Map, Value},
};

const MODEL: Key = Key::same("model");
const HALF_LIFE: Key = Key::new("half_life", "halfLife");
const STRENGTH: Key = Key::new("strength", "currentStrength").also(&["current_strength"]);
const LAST_REINFORCED: Key = Key::new("last_reinforced", "lastReinforced");

/// How the weight of a memory falls with time.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Decay {
    /// The shape of the fall.
    pub model: Option<DecayModel>,
    /// After how long half of the weight is left.
    pub half_life: Option<IsoDuration>,
    /// The strength its last writer computed; kept, never used for computing.
    pub strength: Option<UnitInterval>,
    /// When it was last confirmed.
    pub last_reinforced: Option<Timestamp>,
    /// Keys this version does not know.
    pub other: Map,
}

/// The shape of the fall. Whatever the shape, half is left after one half-life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecayModel {
    /// No fall: always 1.
    None,
    /// In a straight line, reaching 0 after two half-lives.
    Linear,
    /// `0.5^(t / half_life)`.
    Exponential,
    /// Halved at the end of each half-life, constant in between.
    Step,
    /// A model of a newer version; counts as no fall.
    Custom(String),
}

open_list!(
    DecayModel,
    None = "none",
    Linear = "linear",
    Exponential = "exponential",
    Step = "step"
);
open_list_part!(DecayModel);

impl Decay {
    /// Computes the strength at `now`, from the last reinforcement or else from `created`.
    ///
    /// It is computed afresh each time, never from a stored strength, so that asking often does
    /// not make a memory fade. Without a model or a positive half-life, and before the last
    /// reinforcement (clocks differ), it is 1.
    pub fn strength_at(&self, now: DateTime<FixedOffset>, created: &Timestamp) -> f64 {
        let since = self.last_reinforced.as_ref().unwrap_or(created).instant();
        let elapsed = now.signed_duration_since(since).as_seconds_f64();
        let half_life = self.half_life.as_ref().map_or(0.0, IsoDuration::seconds);
        if elapsed <= 0.0 || half_life <= 0.0 {
            return 1.0;
        }
        let half_lives = elapsed / half_life;
        match self.model {
            Some(DecayModel::Linear) => (1.0 - half_lives / 2.0).max(0.0),
            Some(DecayModel::Exponential) => 0.5_f64.powf(half_lives),
            Some(DecayModel::Step) => 0.5_f64.powf(half_lives.floor()),
            Some(DecayModel::None | DecayModel::Custom(_)) | None => 1.0,
        }
    }
}

impl Part for Decay {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            model: fields.optional(&MODEL)?,
            half_life: fields.optional(&HALF_LIFE)?,
            strength: fields.optional(&STRENGTH)?,
            last_reinforced: fields.optional(&LAST_REINFORCED)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&MODEL, self.model.as_ref());
        object.optional(&HALF_LIFE, self.half_life.as_ref());
        object.optional(&STRENGTH, self.strength.as_ref());
        object.optional(&LAST_REINFORCED, self.last_reinforced.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decay(model: DecayModel) -> Decay {
        Decay {
            model: Some(model),
            half_life: Some("P10D".parse().unwrap()),
            last_reinforced: Some("2026-01-11T00:00:00Z".parse().unwrap()),
            strength: UnitInterval::new(0.1),
            ..Decay::default()
        }
    }

    #[test]
    fn half_is_left_after_one_half_life() {
        let created = "2026-01-01T00:00:00Z".parse().unwrap();
        let at =
            |day: &str| format!("2026-{day}T00:00:00Z").parse::<Timestamp>().unwrap().instant();
        for (model, five, ten, twenty) in [
            (DecayModel::None, 1.0, 1.0, 1.0),
            (DecayModel::Linear, 0.75, 0.5, 0.0),
            (DecayModel::Exponential, 0.5_f64.sqrt(), 0.5, 0.25),
            (DecayModel::Step, 1.0, 0.5, 0.25),
            (DecayModel::Custom("power".to_owned()), 1.0, 1.0, 1.0),
        ] {
            let decay = decay(model);
            for (day, expected) in
                [("01-16", five), ("01-21", ten), ("01-31", twenty), ("01-02", 1.0)]
            {
                let strength = decay.strength_at(at(day), &created);
                assert!((strength - expected).abs() < 1e-12, "{:?} {day}: {strength}", decay.model);
            }
        }
    }

    #[test]
    fn never_reinforced_counts_from_creation() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let decay = Decay { last_reinforced: None, ..decay(DecayModel::Exponential) };
        let now = "2026-01-11T00:00:00Z".parse::<Timestamp>().unwrap().instant();
        assert!((decay.strength_at(now, &created) - 0.5).abs() < 1e-12);
    }
}
