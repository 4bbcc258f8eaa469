// Tests forget handles of locks on purpose. The garbage collector must not release their locks at any moment.
// `test/locks/leaked-handles.slow.spec.ts` tests that in processes of its own.
class KeptHandles {
  register(): void {}

  unregister(): boolean {
    return false;
  }
}

Object.assign(globalThis, { FinalizationRegistry: KeptHandles });
