/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/templates' {
  /**
   * Sets a variable of the template, for all turns that are written and all decoders that are created with this handle
   * of the model from now on. `value` is a JSON string, boolean or number; none removes the variable. A variable that
   * the template does not read has no effect. Fails when the engine sets the variable itself (`messages`, `bos_token`),
   * when the template refuses the value, and when the handle has more than 16 options or 4,096 bytes of values.
   */
  export function setOption(model: Model, name: string, value: string | undefined): void;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
}
