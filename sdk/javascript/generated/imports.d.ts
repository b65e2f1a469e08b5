/// <reference path="./interfaces/pie-core-adapter.d.ts" />
/// <reference path="./interfaces/pie-core-context.d.ts" />
/// <reference path="./interfaces/pie-core-inference.d.ts" />
/// <reference path="./interfaces/pie-core-messaging.d.ts" />
/// <reference path="./interfaces/pie-core-model.d.ts" />
/// <reference path="./interfaces/pie-core-runtime.d.ts" />
/// <reference path="./interfaces/pie-core-scheduling.d.ts" />
/// <reference path="./interfaces/pie-core-session.d.ts" />
/// <reference path="./interfaces/pie-core-types.d.ts" />
/// <reference path="./interfaces/pie-instruct-chat.d.ts" />
/// <reference path="./interfaces/pie-instruct-reasoning.d.ts" />
/// <reference path="./interfaces/pie-instruct-tool-use.d.ts" />
/// <reference path="./interfaces/pie-mcp-client.d.ts" />
/// <reference path="./interfaces/pie-mcp-types.d.ts" />
/// <reference path="./interfaces/pie-plus-adapters.d.ts" />
/// <reference path="./interfaces/pie-plus-bidding.d.ts" />
/// <reference path="./interfaces/pie-plus-broadcasts.d.ts" />
/// <reference path="./interfaces/pie-plus-caching.d.ts" />
/// <reference path="./interfaces/pie-plus-calls.d.ts" />
/// <reference path="./interfaces/pie-plus-chains.d.ts" />
/// <reference path="./interfaces/pie-plus-constraints.d.ts" />
/// <reference path="./interfaces/pie-plus-fallible.d.ts" />
/// <reference path="./interfaces/pie-plus-outcome.d.ts" />
/// <reference path="./interfaces/pie-plus-sampling.d.ts" />
/// <reference path="./interfaces/pie-plus-steps.d.ts" />
/// <reference path="./interfaces/pie-plus-templates.d.ts" />
/// <reference path="./interfaces/pie-plus-thoughts.d.ts" />
/// <reference path="./interfaces/pie-plus-turns.d.ts" />
/// <reference path="./interfaces/pie-zo-zo.d.ts" />
/// <reference path="./interfaces/wasi-cli-stderr.d.ts" />
/// <reference path="./interfaces/wasi-cli-stdout.d.ts" />
/// <reference path="./interfaces/wasi-clocks-monotonic-clock.d.ts" />
/// <reference path="./interfaces/wasi-clocks-wall-clock.d.ts" />
/// <reference path="./interfaces/wasi-filesystem-preopens.d.ts" />
/// <reference path="./interfaces/wasi-filesystem-types.d.ts" />
/// <reference path="./interfaces/wasi-http-outgoing-handler.d.ts" />
/// <reference path="./interfaces/wasi-http-types.d.ts" />
/// <reference path="./interfaces/wasi-io-error.d.ts" />
/// <reference path="./interfaces/wasi-io-poll.d.ts" />
/// <reference path="./interfaces/wasi-io-streams.d.ts" />
declare module 'pie:sdk/imports' {
  export type * as PieCoreAdapter from 'pie:core/adapter'; // import pie:core/adapter
  export type * as PieCoreContext from 'pie:core/context'; // import pie:core/context
  export type * as PieCoreInference from 'pie:core/inference'; // import pie:core/inference
  export type * as PieCoreMessaging from 'pie:core/messaging'; // import pie:core/messaging
  export type * as PieCoreModel from 'pie:core/model'; // import pie:core/model
  export type * as PieCoreRuntime from 'pie:core/runtime'; // import pie:core/runtime
  export type * as PieCoreScheduling from 'pie:core/scheduling'; // import pie:core/scheduling
  export type * as PieCoreSession from 'pie:core/session'; // import pie:core/session
  export type * as PieCoreTypes from 'pie:core/types'; // import pie:core/types
  export type * as PieInstructChat from 'pie:instruct/chat'; // import pie:instruct/chat
  export type * as PieInstructReasoning from 'pie:instruct/reasoning'; // import pie:instruct/reasoning
  export type * as PieInstructToolUse from 'pie:instruct/tool-use'; // import pie:instruct/tool-use
  export type * as PieMcpClient from 'pie:mcp/client'; // import pie:mcp/client
  export type * as PieMcpTypes from 'pie:mcp/types'; // import pie:mcp/types
  export type * as PiePlusAdapters from 'pie:plus/adapters'; // import pie:plus/adapters
  export type * as PiePlusBidding from 'pie:plus/bidding'; // import pie:plus/bidding
  export type * as PiePlusBroadcasts from 'pie:plus/broadcasts'; // import pie:plus/broadcasts
  export type * as PiePlusCaching from 'pie:plus/caching'; // import pie:plus/caching
  export type * as PiePlusCalls from 'pie:plus/calls'; // import pie:plus/calls
  export type * as PiePlusChains from 'pie:plus/chains'; // import pie:plus/chains
  export type * as PiePlusConstraints from 'pie:plus/constraints'; // import pie:plus/constraints
  export type * as PiePlusFallible from 'pie:plus/fallible'; // import pie:plus/fallible
  export type * as PiePlusOutcome from 'pie:plus/outcome'; // import pie:plus/outcome
  export type * as PiePlusSampling from 'pie:plus/sampling'; // import pie:plus/sampling
  export type * as PiePlusSteps from 'pie:plus/steps'; // import pie:plus/steps
  export type * as PiePlusTemplates from 'pie:plus/templates'; // import pie:plus/templates
  export type * as PiePlusThoughts from 'pie:plus/thoughts'; // import pie:plus/thoughts
  export type * as PiePlusTurns from 'pie:plus/turns'; // import pie:plus/turns
  export type * as PieZoZo from 'pie:zo/zo'; // import pie:zo/zo
  export type * as WasiCliStderr0212 from 'wasi:cli/stderr@0.2.12'; // import wasi:cli/stderr@0.2.12
  export type * as WasiCliStdout0212 from 'wasi:cli/stdout@0.2.12'; // import wasi:cli/stdout@0.2.12
  export type * as WasiClocksMonotonicClock0212 from 'wasi:clocks/monotonic-clock@0.2.12'; // import wasi:clocks/monotonic-clock@0.2.12
  export type * as WasiClocksWallClock0212 from 'wasi:clocks/wall-clock@0.2.12'; // import wasi:clocks/wall-clock@0.2.12
  export type * as WasiFilesystemPreopens0212 from 'wasi:filesystem/preopens@0.2.12'; // import wasi:filesystem/preopens@0.2.12
  export type * as WasiFilesystemTypes0212 from 'wasi:filesystem/types@0.2.12'; // import wasi:filesystem/types@0.2.12
  export type * as WasiHttpOutgoingHandler0212 from 'wasi:http/outgoing-handler@0.2.12'; // import wasi:http/outgoing-handler@0.2.12
  export type * as WasiHttpTypes0212 from 'wasi:http/types@0.2.12'; // import wasi:http/types@0.2.12
  export type * as WasiIoError0212 from 'wasi:io/error@0.2.12'; // import wasi:io/error@0.2.12
  export type * as WasiIoPoll0212 from 'wasi:io/poll@0.2.12'; // import wasi:io/poll@0.2.12
  export type * as WasiIoStreams0212 from 'wasi:io/streams@0.2.12'; // import wasi:io/streams@0.2.12
}
