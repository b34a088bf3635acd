//! The ways in which the plugin can violate the specification.

macro_rules! deviations {
    ($($name:ident)*) => {
        /// One violation of the specification.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Deviation { $($name,)* }

        impl Deviation {
            /// All deviations.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

deviations! {
    BadPluginName NoVersion UnknownService NotReady PublishedNodesWithoutAttach NoNodeId ChangingNodeId
    NamelessVolume NoCapabilities HalfCapability NewVolumeEachTime ChangingContext TooSmall TooLarge
    EndlessSize NegativeSize OtherSize WrongCode OtherParameters OtherCapability ShortNames
    AsciiNames AnyTopology OtherTopology NoVolumeId
    DeleteOnce DeleteNothing NameStaysReserved
    ConfirmsAnything ConfirmsUnknown EchoesNothing
    LongPages SamePage MissingEntries AnyToken TokenExpires DeletedListed NegativeLimit
    NegativeCapacity UnknownShown OtherVolumeShown NoCondition
    HealthOfOther HealthOfUnknown NoHealthReason HealthTwice LongHealthPages AnyHealthToken
    ListHealthOnly NodeHealthOfOther NodeHealthOfUnknown NoNodeHealth StorageTwice SnapshotElsewhere
    SnapshotOfOther SnapshotEachTime SnapshotUnknownVolume OneSnapshot SnapshotDeletedWithVolume FilterIgnored
    FilterFails SnapshotPages NoCreationTime
    AnyNode CountedAttach DeletesAttached NoAttachLimit AttachHidden AttachReadOnly
    TargetStays LosesData StackedTargets WritableReadOnly SecondTarget OtherUse Unstaged AnyFs
    DeletesPublished SmallFs Abnormal StatsAnywhere TargetsSeparate UnpublishOnce StageUnknown
    WritableBlock BlockIsFile BlockTooSmall
    EmptyClone SharedClone LateRestore CopyEachTime OtherSource SmallerCopy UnknownSource SmallFsCopy SizelessCopy
    ExpansionInvisible Shrinks ExpansionEmpties ExpandUnknown NeverOnline
    AnyMutable NeverModifies ShortSnapshotNames
    GroupLeaks GroupPartial GroupMemberDeletes GroupOfOthers GroupStays
    BlocksOfNothing BlocksBackwards BlocksMissing DeltaMissing BlocksBeyond
    Racing
    CrashesOnToken
    EmptyErrorMessages RevealsSecrets LogsSecrets
}
