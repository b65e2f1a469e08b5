from inferlet import Context, Model, Sampler, messaging, runtime, session

model = Model.load(runtime.models()[0])
ctx = Context(model)

ctx.system("You are a helpful assistant.")
ctx.user("Hello, world!")

text = ctx.generate_text(Sampler.top_p(), max_tokens=16)
session.send(f"{len(text) > 0} ")

# In a script there is no loop, so what an async program awaits blocks here.
messaging.push("topic", "queued")
ctx.flush()
out = ctx.forward().input([97]).execute()
session.send(f"{messaging.pull('topic')} {out.tokens} {input.get('word')}")
