import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Module } from '@nestjs/common';
import {
  Args,
  Field,
  GraphQLModule,
  Int,
  Mutation,
  ObjectType,
  Query,
  Resolver,
} from '@nestjs/graphql';
import { Locked, RedisLockModule } from 'nestjs-redis-lock';

@ObjectType()
export class Cart {
  @Field(() => Int)
  id!: number;

  @Field(() => [String])
  items!: readonly string[];
}

@Resolver(() => Cart)
export class CartResolver {
  private readonly items = new Map<number, readonly string[]>();

  @Query(() => Cart)
  cart(@Args('id', { type: () => Int }) id: number): Cart {
    return { id, items: this.items.get(id) ?? [] };
  }

  @Mutation(() => Cart)
  @Locked('cart:<id>', { waitMs: 1_000 })
  async add(
    @Args('id', { type: () => Int }) id: number,
    @Args('item') item: string,
  ): Promise<Cart> {
    this.items.set(id, [...this.cart(id).items, item]);
    return this.cart(id);
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] }),
    GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true }),
  ],
  providers: [CartResolver],
})
export class CartModule {}
