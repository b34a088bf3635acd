//! What can be wrong with the plugin, one thing at a time.

macro_rules! deviations {
    ($($name:ident)*) => {
        /// One thing that is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Deviation { $($name,)* }

        impl Deviation {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

deviations! {
    BadPluginName NoVersion UnknownService NotReady PublishedNodesWithoutAttach NoNodeId ChangingNodeId
    NamelessVolume NoCapabilities HalfCapability NewVolumeEachTime ChangingContext TooSmall TooLarge
    EndlessSize NegativeSize OtherSize WrongCode OtherParameters OtherCapability ShortNames
    AsciiNames AnyPlace OtherPlace NoVolumeId
    DeleteOnce DeleteNothing NameStaysTaken
    ConfirmsAnything ConfirmsUnknown EchoesNothing
    LongPages SamePage MissingEntries AnyToken TokenDies DeletedListed NegativeLimit
    NegativeCapacity UnknownShown OtherVolumeShown NoCondition
    SnapshotOfOther SnapshotEachTime SnapshotUnknownVolume OneSnapshot SnapshotDies FilterIgnored
    FilterFails SnapshotPages NoCreationTime
    AnyNode CountedAttach DeletesAttached NoAttachLimit AttachHidden AttachReadOnly
    TargetStays LosesData StackedTargets WritableReadOnly SecondTarget OtherUse Unstaged AnyFs
    DeletesPublished SmallFs Abnormal StatsAnywhere TargetsApart UnpublishOnce StageUnknown
    WritableBlock BlockIsFile BlockTooSmall
    EmptyClone SharedClone LateRestore CopyEachTime OtherSource SmallerCopy UnknownSource SmallFsCopy SizelessCopy
    PaperExpansion Shrinks ExpansionEmpties ExpandUnknown NeverOnline
    AnyMutable NeverModifies ShortSnapshotNames
    GroupLeaks GroupPartial GroupMemberDeletes GroupOfOthers GroupStays
    BlocksOfNothing BlocksBackwards BlocksMissing DeltaMissing BlocksBeyond
    Racing
    DiesOfToken
    SilentRefusals TellsSecrets LogsSecrets
}
